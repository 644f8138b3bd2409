# Builds the wheel with a compiler, installs it without one. Data lives in the volume /var/lib/seglog.
#   docker build -t seglog .
#   docker run --rm -p 9092:9092 -p 9644:9644 -v seglog-data:/var/lib/seglog seglog

FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY .src .src
COPY protocol protocol
COPY config config
COPY clients clients
COPY broker broker
COPY pyspark_seglog pyspark_seglog
COPY pyspark_seglog_files pyspark_seglog_files
RUN python -m venv /opt/seglog \
    && /opt/seglog/bin/pip install --no-cache-dir .

FROM python:3.13-slim
RUN useradd --system --uid 1000 --home-dir /var/lib/seglog --create-home seglog
COPY --from=build /opt/seglog /opt/seglog
COPY config/server.properties /etc/seglog/server.properties
# Inside a container the listeners must be reachable from outside of it; what clients are told is
# set with SEGLOG_ADVERTISED_LISTENERS.
ENV PATH=/opt/seglog/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SEGLOG_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    SEGLOG_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    SEGLOG_METRICS_LISTENER=0.0.0.0:9644 \
    SEGLOG_LOG_DIRS=/var/lib/seglog/data
USER seglog
VOLUME /var/lib/seglog
EXPOSE 9092 9644
STOPSIGNAL SIGTERM
# It asks whether the process answers, not whether it is ready: some engines kill a container that is
# "unhealthy", and a long recovery would begin anew each time. Readiness is /readyz.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9644/healthz', timeout=2)"]
# The daemon itself is process 1 (no shell in between), so that SIGTERM reaches it.
ENTRYPOINT ["seglogd"]
CMD ["serve", "--config", "/etc/seglog/server.properties"]
