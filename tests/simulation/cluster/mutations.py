"""The mutants of replication, fencing and election: which text of which file is replaced by what."""

from tests.simulation.mutations import Edit, Mutant

COORDINATION = "broker/kohort/broker/coordination"
TRANSACTIONS = "broker/kohort/broker/transactions"
STORAGE = "storage/kohort/storage"
CONTROLLER = "broker/kohort/broker/controller"
METADATA = "broker/kohort/broker/metadata"
REPLICATION = "broker/kohort/broker/replication"
HANDLERS = "broker/kohort/broker/handlers"

MUTANTS = (
    # What is committed.
    Mutant(
        "a follower fetches on before it has synced",
        f"{REPLICATION}/following.py",
        "        if log.flushed_offset < log.log_end_offset:\n            return None\n",
        "",
    ),
    Mutant(
        "the leader counts what it has not synced",
        f"{REPLICATION}/leadership.py",
        "            return self.log.flushed_offset\n",
        "            return self.log.log_end_offset\n",
    ),
    Mutant(
        "the furthest in sync is counted",
        f"{REPLICATION}/leadership.py",
        "        committed = min(self.synced_end_offset(each) for each in counted)\n",
        "        committed = max(self.synced_end_offset(each) for each in counted)\n",
    ),
    Mutant(
        "a smaller isr counts before the metadata has it",
        f"{REPLICATION}/leadership.py",
        "        return isr + tuple(each for each in self.proposal.after.isr if each not in isr)\n",
        "        return self.proposal.after.isr\n",
    ),
    Mutant(
        "the high watermark goes back",
        f"{REPLICATION}/leadership.py",
        "        if committed <= self.high_watermark:\n            return False\n",
        "",
    ),
    Mutant(
        "too few in sync commit",
        f"{REPLICATION}/leadership.py",
        "        if self.state.elr or not self.has_enough_replicas:\n            return False\n",
        "        if not self.state.isr:\n            return False\n",
    ),
    Mutant(
        "who is eligible outside the isr is overlooked",
        f"{REPLICATION}/leadership.py",
        "        if self.state.elr or not self.has_enough_replicas:\n",
        "        if not self.has_enough_replicas:\n",
        first_seed=180,
    ),
    Mutant(
        "a follower believes the leader's high watermark",
        f"{REPLICATION}/following.py",
        "        known = min(self._leader_high_watermark, self.log.flushed_offset)\n",
        "        known = self._leader_high_watermark\n",
    ),
    Mutant(
        "a proposal is under way though it has come to an end",
        f"{REPLICATION}/leadership.py",
        "self.proposal is not None and self.state.partition_epoch >= self.proposal.after.partition_epoch:\n",
        "self.proposal is not None and self.state.partition_epoch < 0:\n",
    ),
    Mutant(
        "a change of the isr that is not found counts as refused, though etcd makes it later",
        f"{METADATA}/etcd_transactions.py",
        "        looks: list[Operation] = [*(Range(key) for key in keys), settle]\n"
        "        is_sent_again = all(each.revision for each in transaction.compares)\n",
        "        looks: list[Operation] = [*(Range(key) for key in keys)]\n        is_sent_again = False\n",
        others=(
            Edit(
                f"{METADATA}/etcd_store.py",
                "            transaction.compares += registered\n",
                "            pass\n",
            ),
        ),
    ),
    # Who is in sync.
    Mutant(
        "whoever fetches is in sync",
        f"{REPLICATION}/leadership.py",
        "follower.synced_end_offset >= max(self.high_watermark, self.epoch_start_offset)",
        "follower.synced_end_offset >= 0",
    ),
    Mutant(
        "what came before the leader epoch is not asked for",
        f"{REPLICATION}/leadership.py",
        "max(self.high_watermark, self.epoch_start_offset)",
        "self.high_watermark",
    ),
    Mutant(
        "an earlier life of a follower joins",
        f"{REPLICATION}/leadership.py",
        "broker is not None and broker.broker_epoch == follower.broker_epoch and not broker.is_draining",
        "broker is not None and not broker.is_draining",
        others=(
            Edit(
                f"{REPLICATION}/leadership.py",
                "            each: follower.broker_epoch\n",
                "            each: self._brokers[each].broker_epoch\n",
            ),
        ),
    ),
    Mutant(
        "who left an isr that was large enough may lead",
        f"{CONTROLLER}/in_sync.py",
        "    if len(now_in_sync) >= min_in_sync(state, min_insync_replicas):\n",
        "    if len(now_in_sync) >= len(state.replicas):\n",
    ),
    Mutant(
        "the last in sync is forgotten",
        f"{CONTROLLER}/in_sync.py",
        "    elr = tuple(each for each in state.replicas if each in were_eligible and each not in gone)\n",
        "    elr: tuple[int, ...] = ()\n",
    ),
    Mutant(
        "a follower that lags stays in sync",
        f"{REPLICATION}/follower_state.py",
        "        return self.synced_end_offset != leader_end_offset and now_ms",
        "        return self.synced_end_offset > leader_end_offset and now_ms",
    ),
    # Where logs part.
    Mutant(
        "a log that diverges counts",
        f"{REPLICATION}/leadership.py",
        "        refused = answer_to(fetch.at, self.log)\n",
        "        follower.fetched(fetch.broker_epoch, fetch.at.offset, self.log.log_end_offset, now_ms)\n"
        "        refused = answer_to(fetch.at, self.log)\n",
    ),
    Mutant(
        "logs are taken to agree",
        f"{REPLICATION}/replica_fetch.py",
        "        if epoch < at.last_fetched_epoch or end_offset < at.offset:\n",
        "        if end_offset < at.offset:\n",
    ),
    Mutant(
        "logs are cut by the high watermark",
        f"{REPLICATION}/following.py",
        "        return Truncate(min(end_offset, log.log_end_offset))\n",
        "        return Truncate(min(self.high_watermark, log.log_end_offset))\n",
        others=(
            Edit(
                f"{REPLICATION}/replica_fetch.py",
                "        if epoch < at.last_fetched_epoch or end_offset < at.offset:\n",
                "        if end_offset < at.offset:\n",
            ),
        ),
    ),
    Mutant(
        "logs are cut to where the leader's epoch ended alone",
        f"{REPLICATION}/following.py",
        "        epoch, end_offset = log.end_offset_for_epoch(found.epoch)\n",
        "        epoch, end_offset = found.epoch, found.end_offset\n",
    ),
    # Who leads.
    Mutant(
        "any replica that lives is elected",
        f"{CONTROLLER}/election.py",
        "    in_sync = [each for each in state.replicas if each in state.isr]\n",
        "    in_sync = list(state.replicas)\n",
    ),
    Mutant(
        "every topic is led uncleanly",
        f"{CONTROLLER}/election.py",
        "    if leader is None and rules.unclean_leader_election:\n",
        "    if leader is None:\n",
    ),
    Mutant(
        "a new leader keeps the leader epoch",
        f"{CONTROLLER}/election.py",
        "        leader_epoch=before.leader_epoch + leads_anew,\n",
        "        leader_epoch=before.leader_epoch,\n",
    ),
    Mutant(
        "who came back empty stays in sync",
        f"{CONTROLLER}/election.py",
        "            others += (node_id,)\n",
        "            pass\n",
        others=(
            Edit(
                f"{REPLICATION}/authority.py",
                "        return known in {self.directory_id, UNASSIGNED}\n",
                "        return known is not None\n",
            ),
        ),
    ),
    Mutant(
        "who lost the end of its log stays in sync",
        f"{CONTROLLER}/election.py",
        "        return tuple(others)\n",
        "        return tuple(\n"
        "            each\n"
        "            for each, known in zip(state.replicas, state.directories)\n"
        "            if each in others and known not in brokers[each].former_directories\n"
        "        )\n",
    ),
    Mutant(
        "a folder from a backup, or short of what was synced, is taken for whole",
        f"{REPLICATION}/soundness.py",
        "    if found.is_short or not found.is_last_life:\n        return False\n",
        "",
    ),
    Mutant(
        "what was not synced is taken to outlive the machine",
        f"{REPLICATION}/soundness.py",
        "    return found.was_stopped or found.is_synced or found.is_same_boot\n",
        "    return True\n",
    ),
    Mutant(
        "a reassignment is over before the new ones are in sync",
        f"{CONTROLLER}/reassignment.py",
        "    if not isr or not set(state.adding) <= set(isr):\n        return state\n",
        "",
    ),
    Mutant(
        "a replica that is taken away again leads on",
        f"{CONTROLLER}/election.py",
        "    if after == before or after.leader in after.isr:\n        return with_epochs(before, after)\n",
        "    return with_epochs(before, after)\n",
    ),
    # Who may act.
    Mutant(
        "a paused broker answers past its lease",
        f"{REPLICATION}/authority.py",
        "        return now_ms < self._acts_until_ms\n",
        "        return self._acts_until_ms >= 0\n",
    ),
    Mutant(
        "a broker acts for longer than its lease",
        f"{REPLICATION}/authority.py",
        "ACTING_SHARE = 0.9\n",
        "ACTING_SHARE = 1.3\n",
    ),
    Mutant(
        "a new life goes on under the leader epoch of the old one",
        f"{REPLICATION}/authority.py",
        "        return state.leader_epoch <= self._inherited.get(key, -1)\n",
        "        return False\n",
    ),
    # What consumers see.
    Mutant(
        "the end is told before it is known",
        f"{REPLICATION}/leadership.py",
        "        return self.high_watermark if self.high_watermark >= self.epoch_start_offset else None\n",
        "        return self.high_watermark\n",
    ),
    Mutant(
        "a follower serves who has read beyond it",
        f"{REPLICATION}/read_replica.py",
        "    if offset > following.high_watermark:",
        "    if offset > following.log.log_end_offset:",
    ),
    # Transactions.
    Mutant(
        "a decision is followed before it is committed",
        f"{COORDINATION}/shard.py",
        "(decision.records)\n            self._pending.append((command, decision.effects))\n",
        "(decision.records)\n            self._perform(decision.effects)\n",
        is_of_transactions=True,
    ),
    Mutant(
        "who takes transactions over forgets the markers that are due",
        f"{TRANSACTIONS}/coordinator.py",
        "                effects.append(_markers_due(transaction))\n",
        "                pass\n",
        is_of_transactions=True,
    ),
    Mutant(
        "who takes transactions over forgets when their time is up",
        f"{TRANSACTIONS}/coordinator.py",
        "                effects.append(_timer(transaction))\n",
        "                pass\n",
        is_of_transactions=True,
    ),
    Mutant(
        "a marker for a leader that has moved is given up",
        f"{COORDINATION}/transaction_shards.py",
        "        if code is ErrorCode.NONE or code in FINAL or",
        "        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or",
        is_of_transactions=True,
    ),
    Mutant(
        "a marker is told of before its replicas have it",
        f"{COORDINATION}/transaction_markers.py",
        "        self._flusher.request_commit(partition, committed)\n",
        "        self._flusher.request_commit(partition, lambda error: None)\n        committed(None)\n",
        is_of_transactions=True,
    ),
    Mutant(
        "readers of committed records see open transactions in a cluster",
        f"{STORAGE}/writable_log.py",
        "            offset = min(offset, first_open)\n",
        "            pass\n",
        is_of_transactions=True,
    ),
    Mutant(
        "offsets of aborted transactions count",
        f"{COORDINATION}/shard.py",
        "            core.end_pending(write.producer_id, write.end.is_commit)\n",
        "            core.end_pending(write.producer_id, True)\n",
        is_of_transactions=True,
    ),
    Mutant(
        "what a producer of old sends late is not asked about",
        f"{HANDLERS}/transactions/permission.py",
        "place, answered, verify_only=True\n",
        "place, lambda code: answered(None), verify_only=True\n",
        is_of_transactions=True,
    ),
)
