// Drives the Java client for the tests: one JSON command a line on standard input, one JSON answer
// a line on standard output. Bytes travel as base64, null stays null.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class KafkaClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WAIT_MS = 20_000;

    private final String address;
    private final Map<String, Member> members = new HashMap<>();
    private final Map<String, KafkaProducer<byte[], byte[]>> transactional = new HashMap<>();
    private KafkaProducer<byte[], byte[]> stream;
    private final List<Future<RecordMetadata>> streamed = new ArrayList<>();

    private KafkaClient(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        KafkaClient client = new KafkaClient(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", client.obey(JSON.readTree(line)));
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    private JsonNode obey(JsonNode command) throws Exception {
        return switch (command.get("do").asText()) {
            case "produce" -> produce(command);
            case "consume" -> consume(command);
            case "offset_at" -> offsetAt(command);
            case "stream" -> stream(command);
            case "finish_stream" -> finishStream();
            case "transaction" -> transaction(command);
            case "join" -> join(command);
            case "seen" -> member(command).seen();
            case "assigned" -> member(command).assigned();
            case "joins" -> JSON.valueToTree(member(command).joins);
            case "commit" -> member(command).commit();
            case "leave" -> leave(command);
            case "admin" -> admin(command);
            default -> throw new IllegalArgumentException("unknown command");
        };
    }

    // Producing

    private KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("linger.ms", "20");
        settings.put("compression.type", command.path("codec").asText("none"));
        for (Map.Entry<String, JsonNode> each : command.path("settings").properties()) {
            settings.put(each.getKey(), each.getValue().asText());
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode command, JsonNode each)
            throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : each.path("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        return new ProducerRecord<>(
                command.get("topic").asText(),
                command.path("partition").asInt(0),
                each.get("timestamp").asLong(),
                bytes(each.get("key")),
                bytes(each.get("value")),
                headers);
    }

    private JsonNode produce(JsonNode command) throws Exception {
        ArrayNode offsets = JSON.createArrayNode();
        try (KafkaProducer<byte[], byte[]> producer = producer(command)) {
            List<Future<RecordMetadata>> promises = new ArrayList<>();
            for (JsonNode each : command.get("records")) {
                promises.add(producer.send(record(command, each)));
            }
            for (Future<RecordMetadata> each : promises) {
                offsets.add(each.get(WAIT_MS, TimeUnit.MILLISECONDS).offset());
            }
        }
        return offsets;
    }

    /** Sends without waiting, on a producer that stays, so that a test can do harm meanwhile. */
    private JsonNode stream(JsonNode command) throws Exception {
        if (stream == null) {
            stream = producer(command);
        }
        for (JsonNode each : command.get("records")) {
            streamed.add(stream.send(record(command, each)));
        }
        return JSON.valueToTree(streamed.size());
    }

    private JsonNode finishStream() throws Exception {
        ArrayNode offsets = JSON.createArrayNode();
        for (Future<RecordMetadata> each : streamed) {
            offsets.add(each.get(3 * WAIT_MS, TimeUnit.MILLISECONDS).offset());
        }
        stream.close();
        stream = null;
        streamed.clear();
        return offsets;
    }

    private JsonNode transaction(JsonNode command) throws Exception {
        String name = command.get("producer").asText();
        KafkaProducer<byte[], byte[]> producer = transactional.get(name);
        switch (command.get("step").asText()) {
            case "open" -> {
                ObjectNode settings = JSON.createObjectNode();
                settings.put("transactional.id", command.get("transactionalId").asText());
                settings.put("transaction.timeout.ms", command.get("timeout").asText());
                settings.put("max.block.ms", String.valueOf(WAIT_MS));
                producer = producer(JSON.createObjectNode().set("settings", settings));
                transactional.put(name, producer);
                producer.initTransactions();
            }
            case "begin" -> producer.beginTransaction();
            case "send" -> {
                List<Future<RecordMetadata>> promises = new ArrayList<>();
                for (JsonNode each : command.get("records")) {
                    promises.add(producer.send(record(command, each)));
                }
                for (Future<RecordMetadata> each : promises) {
                    each.get(WAIT_MS, TimeUnit.MILLISECONDS);
                }
            }
            case "offset" ->
                    producer.sendOffsetsToTransaction(
                            Map.of(
                                    new TopicPartition(command.get("topic").asText(), 0),
                                    new OffsetAndMetadata(command.get("offset").asLong())),
                            new ConsumerGroupMetadata(command.get("group").asText()));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> transactional.remove(name).close(Duration.ZERO);
            default -> throw new IllegalArgumentException("unknown step");
        }
        return JSON.nullNode();
    }

    // Consuming

    private KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "100");
        for (Map.Entry<String, JsonNode> each : command.path("settings").properties()) {
            settings.put(each.getKey(), each.getValue().asText());
        }
        return new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private JsonNode consume(JsonNode command) {
        TopicPartition place =
                new TopicPartition(
                        command.get("topic").asText(), command.path("partition").asInt(0));
        ArrayNode found = JSON.createArrayNode();
        long deadline = System.currentTimeMillis() + WAIT_MS;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            consumer.assign(List.of(place));
            consumer.seek(place, command.get("start").asLong());
            while (found.size() < command.get("count").asInt()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("only " + found.size() + " records");
                }
                consumer.poll(Duration.ofMillis(100)).forEach(each -> found.add(read(each)));
            }
        }
        return found;
    }

    private JsonNode offsetAt(JsonNode command) {
        TopicPartition place =
                new TopicPartition(
                        command.get("topic").asText(), command.path("partition").asInt(0));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            OffsetAndTimestamp found =
                    consumer.offsetsForTimes(Map.of(place, command.get("time").asLong()))
                            .get(place);
            return found == null ? JSON.nullNode() : JSON.valueToTree(found.offset());
        }
    }

    // Groups

    private JsonNode join(JsonNode command) {
        Member member = new Member(consumer(command), command.get("topic").asText());
        members.put(command.get("member").asText(), member);
        member.start();
        return JSON.nullNode();
    }

    private JsonNode leave(JsonNode command) throws Exception {
        Member member = members.remove(command.get("member").asText());
        member.isDone = true;
        member.join(WAIT_MS);
        return JSON.nullNode();
    }

    private Member member(JsonNode command) {
        return members.get(command.get("member").asText());
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final ArrayNode records = JSON.createArrayNode();
        private final Set<Integer> partitions = new TreeSet<>();
        private final ConcurrentLinkedQueue<FutureTask<JsonNode>> jobs =
                new ConcurrentLinkedQueue<>();
        private volatile boolean isDone = false;
        private volatile int joins = 0;

        Member(KafkaConsumer<byte[], byte[]> consumer, String topic) {
            setDaemon(true);
            this.consumer = consumer;
            consumer.subscribe(List.of(topic), this);
        }

        @Override
        public void run() {
            while (!isDone) {
                consumer.poll(Duration.ofMillis(50)).forEach(each -> records.add(read(each)));
                for (FutureTask<JsonNode> job = jobs.poll(); job != null; job = jobs.poll()) {
                    job.run();
                }
            }
            consumer.close();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            added.forEach(each -> partitions.add(each.partition()));
            joins++;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> removed) {
            removed.forEach(each -> partitions.remove(each.partition()));
        }

        /** Polling and questions happen in one thread, which alone may touch the consumer. */
        private JsonNode inThread(Callable<JsonNode> job) throws Exception {
            FutureTask<JsonNode> task = new FutureTask<>(job);
            jobs.add(task);
            return task.get(WAIT_MS, TimeUnit.MILLISECONDS);
        }

        JsonNode seen() throws Exception {
            return inThread(records::deepCopy);
        }

        JsonNode assigned() throws Exception {
            return inThread(() -> JSON.valueToTree(partitions));
        }

        JsonNode commit() throws Exception {
            return inThread(
                    () -> {
                        consumer.commitSync();
                        return JSON.nullNode();
                    });
        }
    }

    // Administration: each question is small, and what it answers is what the test compares.

    private JsonNode admin(JsonNode command) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        try (Admin admin = Admin.create(settings)) {
            String topic = command.path("topic").asText("");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            switch (command.get("what").asText()) {
                case "create":
                    NewTopic wanted =
                            new NewTopic(topic, command.get("partitions").asInt(), (short) 1);
                    admin.createTopics(List.of(wanted)).all().get();
                    return JSON.nullNode();
                case "delete":
                    admin.deleteTopics(List.of(topic)).all().get();
                    return JSON.nullNode();
                case "grow":
                    int total = command.get("partitions").asInt();
                    admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(total)))
                            .all()
                            .get();
                    return JSON.nullNode();
                case "partitions":
                    return JSON.valueToTree(
                            admin.describeTopics(List.of(topic))
                                    .allTopicNames()
                                    .get()
                                    .get(topic)
                                    .partitions()
                                    .size());
                case "topics":
                    return JSON.valueToTree(admin.listTopics().names().get());
                case "config":
                    Config found = admin.describeConfigs(List.of(resource)).all().get().get(resource);
                    ConfigEntry entry = found.get(command.get("key").asText());
                    return JSON.valueToTree(List.of(entry.value(), entry.source().name()));
                case "set_config":
                    JsonNode value = command.get("value");
                    ConfigEntry changed =
                            new ConfigEntry(command.get("key").asText(), value.asText(null));
                    AlterConfigOp change =
                            new AlterConfigOp(
                                    changed,
                                    value.isNull()
                                            ? AlterConfigOp.OpType.DELETE
                                            : AlterConfigOp.OpType.SET);
                    admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
                    return JSON.nullNode();
                case "delete_records":
                    TopicPartition place = new TopicPartition(topic, 0);
                    RecordsToDelete until =
                            RecordsToDelete.beforeOffset(command.get("offset").asLong());
                    return JSON.valueToTree(
                            admin.deleteRecords(Map.of(place, until))
                                    .lowWatermarks()
                                    .get(place)
                                    .get()
                                    .lowWatermark());
                case "cluster":
                    return JSON.valueToTree(admin.describeCluster().nodes().get().size());
                case "log_dirs":
                    return JSON.valueToTree(
                            admin.describeLogDirs(
                                            List.of(
                                                    admin.describeCluster()
                                                            .controller()
                                                            .get()
                                                            .id()))
                                    .allDescriptions()
                                    .get()
                                    .size());
                case "groups":
                    List<String> names = new ArrayList<>();
                    admin.listGroups().all().get().forEach(each -> names.add(each.groupId()));
                    return JSON.valueToTree(names);
                case "group":
                    String name = command.get("group").asText();
                    return JSON.valueToTree(
                            admin.describeConsumerGroups(List.of(name))
                                    .all()
                                    .get()
                                    .get(name)
                                    .groupState()
                                    .name());
                case "committed":
                    String group = command.get("group").asText();
                    Map<String, Long> offsets = new HashMap<>();
                    admin.listConsumerGroupOffsets(group)
                            .partitionsToOffsetAndMetadata()
                            .get()
                            .forEach((where, what) -> offsets.put(where.toString(), what.offset()));
                    return JSON.valueToTree(offsets);
                case "set_committed":
                    admin.alterConsumerGroupOffsets(
                                    command.get("group").asText(),
                                    Map.of(
                                            new TopicPartition(topic, 0),
                                            new OffsetAndMetadata(command.get("offset").asLong())))
                            .all()
                            .get();
                    return JSON.nullNode();
                case "delete_offsets":
                    admin.deleteConsumerGroupOffsets(
                                    command.get("group").asText(),
                                    Set.of(new TopicPartition(topic, 0)))
                            .all()
                            .get();
                    return JSON.nullNode();
                case "delete_group":
                    admin.deleteConsumerGroups(List.of(command.get("group").asText())).all().get();
                    return JSON.nullNode();
                default:
                    throw new IllegalArgumentException("unknown question");
            }
        }
    }

    // Bytes and records as JSON

    private static byte[] bytes(JsonNode value) throws Exception {
        return value == null || value.isNull() ? null : Base64.getDecoder().decode(value.asText());
    }

    private static String text(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }

    private static ObjectNode read(ConsumerRecord<byte[], byte[]> each) {
        ObjectNode found = JSON.createObjectNode();
        found.put("partition", each.partition());
        found.put("offset", each.offset());
        found.put("timestamp", each.timestamp());
        found.put("key", text(each.key()));
        found.put("value", text(each.value()));
        ArrayNode headers = found.putArray("headers");
        for (Header header : each.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return found;
    }
}
