# Tributary: one image for web processes, runners, migrations and backups.
#   docker build -t tributary .
# The last stage contains Python, the pinned requirements, PostgreSQL's client (for backups) and this
# source, but no compiler, no package installer and no keys. It runs as an unprivileged user and
# writes only to /data and /tmp.

ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS build
COPY requirements.txt /tmp/requirements.txt
RUN python -m venv --without-pip /opt/tributary/venv
RUN python -m pip --python /opt/tributary/venv/bin/python install --no-cache-dir --disable-pip-version-check --only-binary :all: --no-deps -r /tmp/requirements.txt
RUN python -m pip --python /opt/tributary/venv/bin/python check
COPY manage.py /opt/tributary/manage.py
COPY project /opt/tributary/project
COPY chat /opt/tributary/chat
COPY templates /opt/tributary/templates
COPY static /opt/tributary/static
RUN DATA_DIR=/tmp/build STATIC_ROOT=/opt/tributary/static-built /opt/tributary/venv/bin/python /opt/tributary/manage.py collectstatic --noinput --verbosity 0
RUN /opt/tributary/venv/bin/python -m compileall -q /opt/tributary/project /opt/tributary/chat

FROM ${PYTHON}
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client && rm -rf /var/lib/apt/lists/* && python -m pip uninstall -y pip setuptools wheel
RUN install -d -m 0700 -o 10001 -g 10001 /data
COPY --from=build /opt/tributary /opt/tributary
WORKDIR /opt/tributary
USER 10001:10001
ENV PATH=/opt/tributary/venv/bin:/usr/local/bin:/usr/bin:/bin
ENV PYTHONUNBUFFERED=1
ENV PYTHONDONTWRITEBYTECODE=1
ENV DATA_DIR=/data
ENV STATIC_ROOT=/opt/tributary/static-built
ENV HOST=0.0.0.0
ENV PORT=8000
ENV LOG_FORMAT=json
VOLUME /data
EXPOSE 8000
# The first SIGTERM drains: answers in progress may finish within DRAIN_SECONDS. Then it takes up to
# 30 s to interrupt and store the rest. Give it that long (--stop-timeout 45 with the default of 10 s;
# compose.yaml does).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-m", "project.probe"]
ENTRYPOINT ["python", "manage.py"]
CMD ["serve"]
