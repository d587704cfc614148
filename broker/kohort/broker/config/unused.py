"""Broker settings of Apache Kafka 4.4 that kohort does not use: threads, replication, security."""

_NAMES = """
    advertised.listeners
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds
    background.threads client.quota.callback.class
    config.providers
    controller.listener.names controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.socket.timeout.ms cordoned.log.dirs
    create.topic.policy.class.name delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    group.consumer.assignor.offload.enable
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes
    group.coordinator.threads group.share.assignor.offload.enable
    group.share.dlq.manager.class.name
    group.share.initialize.retry.interval.ms
    group.share.persister.class.name
    group.streams.assignor.offload.enable
    group.streams.max.warmup.replicas
    group.streams.num.warmup.replicas
    group.streams.rack.aware.assignment.tags
    group.streams.topology.description.plugin.class
    initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters
    listener.security.protocol.map listeners
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.threads log.dir log.dir.failure.timeout.ms log.dirs
    max.connection.creation.rate max.connections.per.ip.overrides metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.load.buffer.size offsets.topic.compression.codec principal.builder.class process.roles
    producer.purgatory.purge.interval.requests
    remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
    replica.fetch.min.bytes replica.high.watermark.checkpoint.interval.ms replica.socket.receive.buffer.bytes
    replication.quota.window.num replication.quota.window.size.seconds sasl.client.callback.handler.class
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.token.endpoint.url
    sasl.server.callback.handler.class
    security.providers server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size
    share.coordinator.state.topic.compression.codec
    share.coordinator.threads
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.partition.verification.enable
    transaction.state.log.load.buffer.size transaction.two.phase.commit.enable
    unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""


def unused_names() -> frozenset[str]:
    """Return the names of unused settings."""
    return frozenset(_NAMES.split())
