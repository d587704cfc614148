"""The mutants of replication, fencing and election."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import (
    answer,
    assign,
    before_assignment,
    compare,
    drop_assignment,
    drop_element,
    drop_if,
    holds,
    replace,
    without,
)

CONTROLLER = "kohort.broker.controller"
METADATA = "kohort.broker.metadata"
REPLICATION = "kohort.broker.replication"

MUTANTS = (
    # What is committed.
    Mutant(
        "a follower fetches on before it has synced",
        Edit(f"{REPLICATION}.following", "Following.next_fetch", drop_if("flushed_offset")),
    ),
    Mutant(
        "the leader counts what it has not synced",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership.synced_end_offset",
            replace("self.log.flushed_offset", "self.log.log_end_offset"),
        ),
    ),
    Mutant(
        "the furthest in sync is counted",
        Edit(f"{REPLICATION}.leadership", "Leadership._advance", replace("min", "max", index=0)),
    ),
    Mutant(
        "a smaller isr counts before the metadata has it",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership.maximal_isr",
            answer("proposal", "self.proposal.after.isr"),
        ),
    ),
    Mutant(
        "the high watermark goes back",
        Edit(f"{REPLICATION}.leadership", "Leadership._advance", drop_if("high_watermark")),
    ),
    Mutant(
        "too few in sync commit",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership._advance",
            replace("self.state.elr or not self.has_enough_replicas", "not self.state.isr"),
        ),
    ),
    Mutant(
        "who is eligible outside the isr is overlooked",
        Edit(f"{REPLICATION}.leadership", "Leadership._advance", without("elr")),
        first_seed=210,
    ),
    Mutant(
        "a follower believes the leader's high watermark",
        Edit(f"{REPLICATION}.following", "Following.synced", assign("known", "self._leader_high_watermark")),
    ),
    Mutant(
        "a proposal is under way though it has come to an end",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership._forget_decided_proposal",
            holds("partition_epoch", False),
        ),
    ),
    Mutant(
        "a change of the isr that is not found counts as refused, though etcd makes it later",
        Edit(f"{METADATA}.etcd_transactions", "Transactions._settle", drop_element("settle", index=0)),
        Edit(f"{METADATA}.etcd_transactions", "Transactions._settle", assign("is_sent_again", "False")),
        Edit(f"{METADATA}.etcd_store", "EtcdMetadataStore.change", drop_assignment("transaction.compares")),
    ),
    # Who is in sync.
    Mutant(
        "whoever fetches is in sync",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership._may_join",
            replace("max(self.high_watermark, self.epoch_start_offset)", "0"),
        ),
    ),
    Mutant(
        "what came before the leader epoch is not asked for",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership._may_join",
            replace("max(self.high_watermark, self.epoch_start_offset)", "self.high_watermark"),
        ),
    ),
    Mutant(
        "an earlier life of a follower joins",
        Edit(f"{REPLICATION}.leadership", "Leadership._is_eligible", without("broker_epoch")),
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership.propose",
            replace("follower.broker_epoch", "self._brokers[each].broker_epoch"),
        ),
    ),
    Mutant(
        "who left an isr that was large enough may lead",
        Edit(
            f"{CONTROLLER}.in_sync",
            "with_isr",
            replace("min_in_sync(state, min_insync_replicas)", "len(state.replicas)"),
        ),
    ),
    Mutant(
        "the last in sync is forgotten",
        Edit(f"{CONTROLLER}.in_sync", "with_isr", assign("elr", "()")),
    ),
    Mutant(
        "a follower that lags stays in sync",
        Edit(f"{REPLICATION}.follower_state", "FollowerState.lags", compare("synced_end_offset", "!=", ">")),
    ),
    # Where logs part.
    Mutant(
        "a log that diverges counts",
        Edit(
            f"{REPLICATION}.leadership",
            "Leadership.handle_fetch",
            before_assignment(
                "refused",
                "follower.fetched(fetch.broker_epoch, fetch.at.offset, self.log.log_end_offset, now_ms)",
            ),
        ),
    ),
    Mutant(
        "logs are taken to agree",
        Edit(f"{REPLICATION}.replica_fetch", "answer_to", without("last_fetched_epoch")),
    ),
    Mutant(
        "logs are cut by the high watermark",
        Edit(
            f"{REPLICATION}.following",
            "Following.diverged",
            replace("min(end_offset, log.log_end_offset)", "min(self.high_watermark, log.log_end_offset)"),
        ),
        Edit(f"{REPLICATION}.replica_fetch", "answer_to", without("last_fetched_epoch")),
    ),
    Mutant(
        "logs are cut to where the leader's epoch ended alone",
        Edit(
            f"{REPLICATION}.following",
            "Following.diverged",
            replace("log.end_offset_for_epoch(found.epoch)", "(found.epoch, found.end_offset)"),
        ),
    ),
    # Who leads.
    Mutant(
        "any replica that lives is elected",
        Edit(f"{CONTROLLER}.election", "_elected", assign("in_sync", "list(state.replicas)")),
    ),
    Mutant(
        "every topic is led uncleanly",
        Edit(f"{CONTROLLER}.election", "_with_leader", without("unclean_leader_election")),
    ),
    Mutant(
        "a new leader keeps the leader epoch",
        Edit(
            f"{CONTROLLER}.election",
            "with_epochs",
            replace("before.leader_epoch + leads_anew", "before.leader_epoch"),
        ),
    ),
    Mutant(
        "who came back empty stays in sync",
        Edit(f"{CONTROLLER}.election", "_with_another_folder", drop_assignment("others", index=1)),
        Edit(
            f"{REPLICATION}.authority",
            "Authority.has_its_folder",
            replace("known in {self.directory_id, UNASSIGNED}", "known is not None"),
        ),
    ),
    Mutant(
        "who lost the end of its log stays in sync",
        Edit(
            f"{CONTROLLER}.election",
            "_lost",
            answer(
                "others",
                "tuple(each for each, known in zip(state.replicas, state.directories)"
                " if each in others and known not in brokers[each].former_directories)",
                index=0,
            ),
        ),
    ),
    Mutant(
        "a folder from a backup, or short of what was synced, is taken for whole",
        Edit(f"{REPLICATION}.soundness", "has_all", drop_if("is_short")),
    ),
    Mutant(
        "what was not synced is taken to outlive the machine",
        Edit(f"{REPLICATION}.soundness", "has_all", answer("is_same_boot", "True")),
    ),
    Mutant(
        "a reassignment is over before the new ones are in sync",
        Edit(f"{CONTROLLER}.reassignment", "completed", drop_if("isr")),
    ),
    Mutant(
        "a replica that is taken away again leads on",
        Edit(f"{CONTROLLER}.election", "reassigned", holds("after.leader", True)),
    ),
    # Who may act.
    Mutant(
        "a paused broker answers past its lease",
        Edit(
            f"{REPLICATION}.authority",
            "Authority.may_act",
            answer("_acts_until_ms", "self._acts_until_ms >= 0"),
        ),
    ),
    Mutant(
        "a broker acts for longer than its lease",
        Edit(f"{REPLICATION}.authority", "", assign("ACTING_SHARE", "1.3")),
    ),
    Mutant(
        "a new life goes on under the leader epoch of the old one",
        Edit(f"{REPLICATION}.authority", "Authority.is_inherited", answer("_inherited", "False")),
    ),
    # What consumers see.
    Mutant(
        "the end is told before it is known",
        Edit(f"{REPLICATION}.leadership", "Leadership.latest_offset", holds("epoch_start_offset", True)),
    ),
    Mutant(
        "a follower serves who has read beyond it",
        Edit(
            f"{REPLICATION}.read_replica",
            "check_follower_read",
            replace("following.high_watermark", "following.log.log_end_offset"),
        ),
    ),
)
