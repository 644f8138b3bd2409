// Drives kafkajs for the tests: one JSON command a line on standard input, one JSON answer a line
// on standard output. Bytes travel as base64, null stays null.

const readline = require('readline')
const kafkajs = require('kafkajs')

const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

// What the library leaves to others: compress and decompress, both of buffers.
const plug = (compress, decompress) => () => ({
  compress: async (encoder) => Buffer.from(await compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(await decompress(buffer)),
})
const lz4 = require('lz4-napi')
const zstd = new Promise((resolve) =>
  require('zstd-codec').ZstdCodec.run((found) => resolve(new found.Streaming())))

kafkajs.CompressionCodecs[CODECS.snappy] = require('kafkajs-snappy')
kafkajs.CompressionCodecs[CODECS.lz4] = plug(lz4.compressFrame, lz4.decompressFrame)
kafkajs.CompressionCodecs[CODECS.zstd] = plug(
  async (buffer) => (await zstd).compress(buffer, 3),
  async (buffer) => (await zstd).decompress(buffer))

const kafka = new kafkajs.Kafka({
  clientId: 'kafkajs-test',
  brokers: [process.argv[2]],
  logLevel: kafkajs.logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 12 },
})
const members = new Map()

const bytes = (text) => (text === null ? null : Buffer.from(text, 'base64'))
const text = (value) => (value === null || value === undefined ? null : value.toString('base64'))

// The library wants headers as an object, where a repeated name holds a list.
function toHeaders(pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    if (name in headers) headers[name] = [].concat(headers[name], bytes(value))
    else headers[name] = bytes(value)
  }
  return headers
}

function fromHeaders(headers) {
  return Object.entries(headers || {}).flatMap(([name, value]) =>
    [].concat(value).map((each) => [name, text(each)]))
}

function toRead(partition, message) {
  return {
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: text(message.key),
    value: text(message.value),
    headers: fromHeaders(message.headers),
  }
}

async function produce(command) {
  const producer = kafka.producer({
    idempotent: Boolean(command.idempotent),
    maxInFlightRequests: 1,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  })
  await producer.connect()
  try {
    const offsets = []
    const chunk = command.chunk || command.records.length
    for (let start = 0; start < command.records.length; start += chunk) {
      const part = command.records.slice(start, start + chunk)
      const [result] = await producer.send({
        topic: command.topic,
        acks: -1,
        compression: CODECS[command.codec || 'none'],
        messages: part.map((each) => ({
          key: bytes(each.key),
          value: bytes(each.value),
          partition: command.partition || 0,
          timestamp: String(each.timestamp),
          headers: toHeaders(each.headers),
        })),
      })
      const base = Number(result.baseOffset)
      offsets.push(...part.map((_, index) => base + index))
    }
    return offsets
  } finally {
    await producer.disconnect()
  }
}

// Sends without waiting, on a producer that stays, so that a test can do harm meanwhile.
let stream = null
const streamed = []

async function beginStream(command) {
  if (stream === null) {
    stream = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
      retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 60 },
    })
    await stream.connect()
  }
  const messages = command.records.map((each) => ({ value: bytes(each.value), partition: 0 }))
  // One after the other: the library numbers batches when they are sent, not when they are given.
  const before = streamed.length ? streamed[streamed.length - 1] : Promise.resolve()
  streamed.push(before.then(() => stream.send({ topic: command.topic, acks: -1, messages })))
  streamed[streamed.length - 1].catch(() => {})
  return streamed.length
}

async function finishStream() {
  await Promise.all(streamed)
  await stream.disconnect()
  stream = null
  streamed.length = 0
  return []
}

async function consume(command) {
  const groupId = `reader-${Date.now()}-${Math.random()}`
  const readUncommitted = command.settings['isolation.level'] === 'read_uncommitted'
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100, readUncommitted })
  const found = []
  await consumer.connect()
  await consumer.subscribe({ topics: [command.topic], fromBeginning: true })
  const wanted = command.partition || 0
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`only ${found.length} records`)), 20000)
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (partition !== wanted || Number(message.offset) < command.start) return
        if (found.length < command.count) found.push(toRead(partition, message))
        if (found.length >= command.count) {
          clearTimeout(timer)
          resolve()
        }
      },
    }).catch(reject)
    consumer.seek({ topic: command.topic, partition: wanted, offset: String(command.start) })
  })
  await consumer.disconnect()
  return found
}

// A producer that stays; the transaction that is open lies beside it.
const transactional = new Map()

const TRANSACTION = {
  open: async (command) => {
    const producer = kafka.producer({
      transactionalId: command.transactionalId,
      transactionTimeout: command.timeout,
      idempotent: true,
      maxInFlightRequests: 1,
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
      retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 30 },
    })
    await producer.connect()
    // Only the first transaction asks for the producer's number, which is what fences others.
    await (await producer.transaction()).abort()
    transactional.set(command.producer, { producer, open: null })
  },
  begin: async (command, held) => { held.open = await held.producer.transaction() },
  send: (command, held) =>
    held.open.send({
      topic: command.topic,
      acks: -1,
      messages: command.records.map((each) => ({ value: bytes(each.value), partition: 0 })),
    }),
  offset: (command, held) =>
    held.open.sendOffsets({
      consumerGroupId: command.group,
      topics: [{ topic: command.topic, partitions: [{ partition: 0, offset: String(command.offset) }] }],
    }),
  commit: (command, held) => held.open.commit(),
  abort: (command, held) => held.open.abort(),
  close: (command, held) => held.producer.disconnect(),
}

async function transaction(command) {
  await TRANSACTION[command.step](command, transactional.get(command.producer))
  return null
}

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

// The library answers with the end of the partition where no record is late enough.
async function offsetAt(command) {
  return withAdmin(async (admin) => {
    const byTime = await admin.fetchTopicOffsetsByTimestamp(command.topic, command.time)
    const ends = await admin.fetchTopicOffsets(command.topic)
    const of = (list) => Number(list.find((each) => each.partition === (command.partition || 0)).offset)
    return of(byTime) === of(ends) ? null : of(byTime)
  })
}

async function join(command) {
  const consumer = kafka.consumer({
    groupId: command.group,
    sessionTimeout: command.sessionTimeout,
    heartbeatInterval: 200,
    maxWaitTimeInMs: 100,
  })
  const member = { consumer, records: [], assigned: [], joins: 0, positions: new Map() }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.assigned = payload.memberAssignment[command.topic] || []
    member.joins += 1
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [command.topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      member.records.push(toRead(partition, message))
      member.positions.set(partition, { topic, partition, offset: String(Number(message.offset) + 1) })
    },
  })
  members.set(command.member, member)
  return null
}

async function leave(command) {
  await members.get(command.member).consumer.disconnect()
  members.delete(command.member)
  return null
}

async function commit(command) {
  const member = members.get(command.member)
  await member.consumer.commitOffsets([...member.positions.values()])
  return null
}

const ADMIN = {
  create: async (admin, command) => {
    const topics = [{ topic: command.topic, numPartitions: command.partitions }]
    if (!(await admin.createTopics({ topics }))) throw new Error('the topic exists')
  },
  delete: (admin, command) => admin.deleteTopics({ topics: [command.topic] }),
  grow: (admin, command) =>
    admin.createPartitions({ topicPartitions: [{ topic: command.topic, count: command.partitions }] }),
  partitions: async (admin, command) =>
    (await admin.fetchTopicMetadata({ topics: [command.topic] })).topics[0].partitions.length,
  topics: (admin) => admin.listTopics(),
  config: async (admin, command) => {
    const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: command.topic, configNames: [command.key] }]
    const answer = await admin.describeConfigs({ resources, includeSynonyms: false })
    const entry = answer.resources[0].configEntries[0]
    return [entry.configValue, entry.configSource]
  },
  set_config: (admin, command) =>
    admin.alterConfigs({
      resources: [{
        type: kafkajs.ConfigResourceTypes.TOPIC,
        name: command.topic,
        configEntries: command.value === null ? [] : [{ name: command.key, value: command.value }],
      }],
    }).then(() => null),
  delete_records: async (admin, command) => {
    // Deleting looks for the leader in what the admin client happens to know already.
    await admin.fetchTopicOffsets(command.topic)
    await admin.deleteTopicRecords({
      topic: command.topic,
      partitions: [{ partition: 0, offset: String(command.offset) }],
    })
    const offsets = await admin.fetchTopicOffsets(command.topic)
    return Number(offsets[0].low)
  },
  cluster: async (admin) => (await admin.describeCluster()).brokers.length,
  groups: async (admin) => (await admin.listGroups()).groups.map((each) => each.groupId),
  group: async (admin, command) =>
    (await admin.describeGroups([command.group])).groups[0].state.toUpperCase(),
  committed: async (admin, command) => {
    const found = await admin.fetchOffsets({ groupId: command.group, topics: [command.topic] })
    const known = found[0].partitions.filter((each) => each.offset !== '-1')
    return Object.fromEntries(known.map((each) => [`${command.topic}-${each.partition}`, Number(each.offset)]))
  },
  set_committed: async (admin, command) => {
    const partitions = [{ partition: 0, offset: String(command.offset) }]
    await admin.setOffsets({ groupId: command.group, topic: command.topic, partitions })
    return null
  },
  delete_group: async (admin, command) => {
    await admin.deleteGroups([command.group])
    return null
  },
}

const COMMANDS = {
  produce,
  consume,
  offset_at: offsetAt,
  transaction,
  stream: beginStream,
  finish_stream: finishStream,
  join,
  leave,
  commit,
  seen: async (command) => members.get(command.member).records,
  assigned: async (command) => members.get(command.member).assigned,
  joins: async (command) => members.get(command.member).joins,
  admin: (command) =>
    withAdmin(async (admin) => {
      const result = await ADMIN[command.what](admin, command)
      return result === undefined || result === true || result === false ? null : result
    }),
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    let answer
    try {
      answer = { result: await COMMANDS[command.do](command) }
    } catch (error) {
      answer = { error: `${error.type || error.name}: ${error.message}` }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
}

main()
