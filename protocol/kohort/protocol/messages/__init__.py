"""Every message of the APIs that kohort speaks; one module per API.

A module is imported when one of its names is asked for: a client speaks a third of them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.protocol.messages.add_offsets_to_txn import (
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
    )
    from kohort.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnResult,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTopicResult,
        AddPartitionsToTxnTransaction,
    )
    from kohort.protocol.messages.alter_client_quotas import (
        AlterClientQuotasEntity,
        AlterClientQuotasEntry,
        AlterClientQuotasOperation,
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        AlterClientQuotasResult,
        AlterClientQuotasResultEntity,
    )
    from kohort.protocol.messages.alter_configs import (
        AlterConfigsRequest,
        AlterConfigsRequestAlterableConfig,
        AlterConfigsRequestAlterConfigsResource,
        AlterConfigsResponse,
        AlterConfigsResponseAlterConfigsResourceResponse,
    )
    from kohort.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartition,
        ReassignablePartitionResponse,
        ReassignableTopic,
        ReassignableTopicResponse,
    )
    from kohort.protocol.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsPartition,
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
        AlterShareGroupOffsetsResponsePartition,
        AlterShareGroupOffsetsResponseTopic,
        AlterShareGroupOffsetsTopic,
    )
    from kohort.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        AlterUserScramCredentialsResult,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from kohort.protocol.messages.api_versions import (
        ApiVersion,
        ApiVersionsRequest,
        ApiVersionsResponse,
        FinalizedFeatureKey,
        SupportedFeatureKey,
    )
    from kohort.protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeAssignment,
        ConsumerGroupDescribeDescribedGroup,
        ConsumerGroupDescribeMember,
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        ConsumerGroupDescribeTopicPartitions,
    )
    from kohort.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatAssignment,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        ConsumerGroupHeartbeatTopicPartitions,
    )
    from kohort.protocol.messages.create_acls import (
        AclCreation,
        AclCreationResult,
        CreateAclsRequest,
        CreateAclsResponse,
    )
    from kohort.protocol.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
        CreatePartitionsTopicResult,
    )
    from kohort.protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreatableTopicConfigs,
        CreatableTopicResult,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from kohort.protocol.messages.delete_acls import (
        DeleteAclsFilter,
        DeleteAclsFilterResult,
        DeleteAclsMatchingAcl,
        DeleteAclsRequest,
        DeleteAclsResponse,
    )
    from kohort.protocol.messages.delete_groups import (
        DeletableGroupResult,
        DeleteGroupsRequest,
        DeleteGroupsResponse,
    )
    from kohort.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsPartitionResult,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        DeleteRecordsTopic,
        DeleteRecordsTopicResult,
    )
    from kohort.protocol.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
        DeleteShareGroupOffsetsResponseTopic,
        DeleteShareGroupOffsetsTopic,
    )
    from kohort.protocol.messages.delete_share_group_state import (
        DeleteShareGroupStatePartition,
        DeleteShareGroupStatePartitionResult,
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
        DeleteShareGroupStateTopic,
        DeleteShareGroupStateTopicResult,
    )
    from kohort.protocol.messages.delete_topics import (
        DeletableTopicResult,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        DeleteTopicState,
    )
    from kohort.protocol.messages.describe_acls import (
        AclDescription,
        DescribeAclsRequest,
        DescribeAclsResource,
        DescribeAclsResponse,
    )
    from kohort.protocol.messages.describe_client_quotas import (
        DescribeClientQuotasComponent,
        DescribeClientQuotasEntity,
        DescribeClientQuotasEntry,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        DescribeClientQuotasValue,
    )
    from kohort.protocol.messages.describe_cluster import (
        DescribeClusterBroker,
        DescribeClusterRequest,
        DescribeClusterResponse,
    )
    from kohort.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResourceResult,
        DescribeConfigsResponse,
        DescribeConfigsResult,
        DescribeConfigsSynonym,
    )
    from kohort.protocol.messages.describe_groups import (
        DescribedGroup,
        DescribedGroupMember,
        DescribeGroupsRequest,
        DescribeGroupsResponse,
    )
    from kohort.protocol.messages.describe_log_dirs import (
        DescribableLogDirTopic,
        DescribeLogDirsPartition,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
        DescribeLogDirsResult,
        DescribeLogDirsTopic,
    )
    from kohort.protocol.messages.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersRequestTopicRequest,
        DescribeProducersResponse,
        PartitionResponse,
        ProducerState,
        TopicResponse,
    )
    from kohort.protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsGroup,
        DescribeShareGroupOffsetsPartition,
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponseGroup,
        DescribeShareGroupOffsetsResponseTopic,
        DescribeShareGroupOffsetsTopic,
    )
    from kohort.protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsRequestCursor,
        DescribeTopicPartitionsRequestTopicRequest,
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponseCursor,
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )
    from kohort.protocol.messages.describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        DescribeTransactionsTopicData,
        DescribeTransactionsTransactionState,
    )
    from kohort.protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsCredentialInfo,
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
        DescribeUserScramCredentialsUserName,
    )
    from kohort.protocol.messages.elect_leaders import (
        ElectLeadersPartitionResult,
        ElectLeadersReplicaElectionResult,
        ElectLeadersRequest,
        ElectLeadersResponse,
        ElectLeadersTopicPartitions,
    )
    from kohort.protocol.messages.end_txn import (
        EndTxnRequest,
        EndTxnResponse,
    )
    from kohort.protocol.messages.fetch import (
        AbortedTransaction,
        FetchableTopicResponse,
        FetchPartition,
        FetchRequest,
        FetchResponse,
        FetchResponseEpochEndOffset,
        FetchResponseLeaderIdAndEpoch,
        FetchResponseNodeEndpoint,
        FetchTopic,
        ForgottenTopic,
        PartitionData,
        ReplicaState,
        SnapshotId,
    )
    from kohort.protocol.messages.find_coordinator import (
        Coordinator,
        FindCoordinatorRequest,
        FindCoordinatorResponse,
    )
    from kohort.protocol.messages.heartbeat import (
        HeartbeatRequest,
        HeartbeatResponse,
    )
    from kohort.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsRequestAlterableConfig,
        IncrementalAlterConfigsRequestAlterConfigsResource,
        IncrementalAlterConfigsResponse,
        IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    )
    from kohort.protocol.messages.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )
    from kohort.protocol.messages.initialize_share_group_state import (
        InitializeShareGroupStatePartition,
        InitializeShareGroupStatePartitionResult,
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
        InitializeShareGroupStateTopic,
        InitializeShareGroupStateTopicResult,
    )
    from kohort.protocol.messages.join_group import (
        JoinGroupRequest,
        JoinGroupRequestProtocol,
        JoinGroupResponse,
        JoinGroupResponseMember,
    )
    from kohort.protocol.messages.leave_group import (
        LeaveGroupRequest,
        LeaveGroupResponse,
        MemberIdentity,
        MemberResponse,
    )
    from kohort.protocol.messages.list_config_resources import (
        ConfigResource,
        ListConfigResourcesRequest,
        ListConfigResourcesResponse,
    )
    from kohort.protocol.messages.list_groups import (
        ListedGroup,
        ListGroupsRequest,
        ListGroupsResponse,
    )
    from kohort.protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsPartitionResponse,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
        ListOffsetsTopicResponse,
    )
    from kohort.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        ListPartitionReassignmentsTopic,
        OngoingPartitionReassignment,
        OngoingTopicReassignment,
    )
    from kohort.protocol.messages.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
        ListTransactionsTransactionState,
    )
    from kohort.protocol.messages.metadata import (
        MetadataRequest,
        MetadataRequestTopic,
        MetadataResponse,
        MetadataResponseBroker,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )
    from kohort.protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
        OffsetCommitResponse,
        OffsetCommitResponsePartition,
        OffsetCommitResponseTopic,
    )
    from kohort.protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
        OffsetDeleteResponse,
        OffsetDeleteResponsePartition,
        OffsetDeleteResponseTopic,
    )
    from kohort.protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
        OffsetFetchResponse,
        OffsetFetchResponseGroup,
        OffsetFetchResponsePartition,
        OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic,
        OffsetFetchResponseTopics,
    )
    from kohort.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        OffsetForLeaderEpochResponseEpochEndOffset,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
        OffsetForLeaderTopicResult,
    )
    from kohort.protocol.messages.produce import (
        BatchIndexAndErrorMessage,
        PartitionProduceData,
        PartitionProduceResponse,
        ProduceRequest,
        ProduceResponse,
        ProduceResponseLeaderIdAndEpoch,
        ProduceResponseNodeEndpoint,
        TopicProduceData,
        TopicProduceResponse,
    )
    from kohort.protocol.messages.read_share_group_state import (
        ReadShareGroupStateBatch,
        ReadShareGroupStatePartition,
        ReadShareGroupStatePartitionResult,
        ReadShareGroupStateRequest,
        ReadShareGroupStateResponse,
        ReadShareGroupStateTopic,
        ReadShareGroupStateTopicResult,
    )
    from kohort.protocol.messages.read_share_group_state_summary import (
        ReadShareGroupStateSummaryPartition,
        ReadShareGroupStateSummaryPartitionResult,
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
        ReadShareGroupStateSummaryTopic,
        ReadShareGroupStateSummaryTopicResult,
    )
    from kohort.protocol.messages.sasl_authenticate import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
    )
    from kohort.protocol.messages.sasl_handshake import (
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )
    from kohort.protocol.messages.share_acknowledge import (
        ShareAcknowledgeBatch,
        ShareAcknowledgeLeaderIdAndEpoch,
        ShareAcknowledgeNodeEndpoint,
        ShareAcknowledgePartition,
        ShareAcknowledgePartitionResponse,
        ShareAcknowledgeRequest,
        ShareAcknowledgeResponse,
        ShareAcknowledgeTopic,
        ShareAcknowledgeTopicResponse,
    )
    from kohort.protocol.messages.share_fetch import (
        ShareFetchAcknowledgementBatch,
        ShareFetchAcquired,
        ShareFetchForgottenTopic,
        ShareFetchLeaderIdAndEpoch,
        ShareFetchNodeEndpoint,
        ShareFetchPartition,
        ShareFetchPartitionResponse,
        ShareFetchRequest,
        ShareFetchResponse,
        ShareFetchTopic,
        ShareFetchTopicResponse,
    )
    from kohort.protocol.messages.share_group_describe import (
        ShareGroupDescribeAssignment,
        ShareGroupDescribeDescribedGroup,
        ShareGroupDescribeMember,
        ShareGroupDescribeRequest,
        ShareGroupDescribeResponse,
        ShareGroupDescribeTopicPartitions,
    )
    from kohort.protocol.messages.share_group_heartbeat import (
        ShareGroupHeartbeatAssignment,
        ShareGroupHeartbeatRequest,
        ShareGroupHeartbeatResponse,
        ShareGroupHeartbeatTopicPartitions,
    )
    from kohort.protocol.messages.streams_group_describe import (
        StreamsGroupDescribeAssignment,
        StreamsGroupDescribeDescribedGroup,
        StreamsGroupDescribeEndpoint,
        StreamsGroupDescribeKeyValue,
        StreamsGroupDescribeMember,
        StreamsGroupDescribeRequest,
        StreamsGroupDescribeResponse,
        StreamsGroupDescribeSubtopology,
        StreamsGroupDescribeTaskIds,
        StreamsGroupDescribeTaskOffset,
        StreamsGroupDescribeTopicInfo,
        StreamsGroupDescribeTopology,
        StreamsGroupDescribeTopologyDescription,
        StreamsGroupDescribeTopologyDescriptionGlobalStore,
        StreamsGroupDescribeTopologyDescriptionNode,
        StreamsGroupDescribeTopologyDescriptionSubtopology,
    )
    from kohort.protocol.messages.streams_group_heartbeat import (
        StreamsGroupHeartbeatCopartitionGroup,
        StreamsGroupHeartbeatEndpoint,
        StreamsGroupHeartbeatEndpointToPartitions,
        StreamsGroupHeartbeatKeyValue,
        StreamsGroupHeartbeatRequest,
        StreamsGroupHeartbeatResponse,
        StreamsGroupHeartbeatStatus,
        StreamsGroupHeartbeatSubtopology,
        StreamsGroupHeartbeatTaskIds,
        StreamsGroupHeartbeatTaskOffset,
        StreamsGroupHeartbeatTopicInfo,
        StreamsGroupHeartbeatTopicPartition,
        StreamsGroupHeartbeatTopology,
    )
    from kohort.protocol.messages.sync_group import (
        SyncGroupRequest,
        SyncGroupRequestAssignment,
        SyncGroupResponse,
    )
    from kohort.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponsePartition,
        TxnOffsetCommitResponseTopic,
    )
    from kohort.protocol.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from kohort.protocol.messages.update_features import (
        UpdateFeaturesFeatureUpdateKey,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
        UpdateFeaturesUpdatableFeatureResult,
    )
    from kohort.protocol.messages.write_share_group_state import (
        WriteShareGroupStateBatch,
        WriteShareGroupStatePartition,
        WriteShareGroupStatePartitionResult,
        WriteShareGroupStateRequest,
        WriteShareGroupStateResponse,
        WriteShareGroupStateTopic,
        WriteShareGroupStateTopicResult,
    )
    from kohort.protocol.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerPartitionResult,
        WritableTxnMarkerResult,
        WritableTxnMarkerTopic,
        WritableTxnMarkerTopicResult,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )

_HOME = {
    "add_partitions_to_txn": (
        "AddPartitionsToTxnPartitionResult"
        " AddPartitionsToTxnRequest"
        " AddPartitionsToTxnResponse"
        " AddPartitionsToTxnResult"
        " AddPartitionsToTxnTopic"
        " AddPartitionsToTxnTopicResult"
        " AddPartitionsToTxnTransaction"
    ),
    "add_offsets_to_txn": ("AddOffsetsToTxnRequest AddOffsetsToTxnResponse"),
    "end_txn": ("EndTxnRequest EndTxnResponse"),
    "write_txn_markers": (
        "WritableTxnMarker"
        " WritableTxnMarkerPartitionResult"
        " WritableTxnMarkerResult"
        " WritableTxnMarkerTopic"
        " WritableTxnMarkerTopicResult"
        " WriteTxnMarkersRequest"
        " WriteTxnMarkersResponse"
    ),
    "txn_offset_commit": (
        "TxnOffsetCommitRequest"
        " TxnOffsetCommitRequestPartition"
        " TxnOffsetCommitRequestTopic"
        " TxnOffsetCommitResponse"
        " TxnOffsetCommitResponsePartition"
        " TxnOffsetCommitResponseTopic"
    ),
    "describe_transactions": (
        "DescribeTransactionsRequest"
        " DescribeTransactionsResponse"
        " DescribeTransactionsTopicData"
        " DescribeTransactionsTransactionState"
    ),
    "list_transactions": (
        "ListTransactionsRequest ListTransactionsResponse ListTransactionsTransactionState"
    ),
    "unregister_broker": "UnregisterBrokerRequest UnregisterBrokerResponse",
    "update_features": (
        "UpdateFeaturesFeatureUpdateKey "
        "UpdateFeaturesRequest "
        "UpdateFeaturesResponse "
        "UpdateFeaturesUpdatableFeatureResult"
    ),
    "elect_leaders": (
        "ElectLeadersPartitionResult "
        "ElectLeadersReplicaElectionResult "
        "ElectLeadersRequest "
        "ElectLeadersResponse "
        "ElectLeadersTopicPartitions"
    ),
    "streams_group_describe": (
        "StreamsGroupDescribeAssignment "
        "StreamsGroupDescribeDescribedGroup "
        "StreamsGroupDescribeEndpoint "
        "StreamsGroupDescribeKeyValue "
        "StreamsGroupDescribeMember "
        "StreamsGroupDescribeRequest "
        "StreamsGroupDescribeResponse "
        "StreamsGroupDescribeSubtopology "
        "StreamsGroupDescribeTaskIds "
        "StreamsGroupDescribeTaskOffset "
        "StreamsGroupDescribeTopicInfo "
        "StreamsGroupDescribeTopology "
        "StreamsGroupDescribeTopologyDescription "
        "StreamsGroupDescribeTopologyDescriptionGlobalStore "
        "StreamsGroupDescribeTopologyDescriptionNode "
        "StreamsGroupDescribeTopologyDescriptionSubtopology"
    ),
    "streams_group_heartbeat": (
        "StreamsGroupHeartbeatCopartitionGroup "
        "StreamsGroupHeartbeatEndpoint "
        "StreamsGroupHeartbeatEndpointToPartitions "
        "StreamsGroupHeartbeatKeyValue "
        "StreamsGroupHeartbeatRequest "
        "StreamsGroupHeartbeatResponse "
        "StreamsGroupHeartbeatStatus "
        "StreamsGroupHeartbeatSubtopology "
        "StreamsGroupHeartbeatTaskIds "
        "StreamsGroupHeartbeatTaskOffset "
        "StreamsGroupHeartbeatTopicInfo "
        "StreamsGroupHeartbeatTopicPartition "
        "StreamsGroupHeartbeatTopology"
    ),
    "share_group_describe": (
        "ShareGroupDescribeAssignment "
        "ShareGroupDescribeDescribedGroup "
        "ShareGroupDescribeMember "
        "ShareGroupDescribeRequest "
        "ShareGroupDescribeResponse "
        "ShareGroupDescribeTopicPartitions"
    ),
    "consumer_group_describe": (
        "ConsumerGroupDescribeAssignment "
        "ConsumerGroupDescribeDescribedGroup "
        "ConsumerGroupDescribeMember "
        "ConsumerGroupDescribeRequest "
        "ConsumerGroupDescribeResponse "
        "ConsumerGroupDescribeTopicPartitions"
    ),
    "alter_client_quotas": (
        "AlterClientQuotasEntity AlterClientQuotasEntry AlterClientQuotasOperation"
        " AlterClientQuotasRequest AlterClientQuotasResponse AlterClientQuotasResult"
        " AlterClientQuotasResultEntity"
    ),
    "alter_configs": (
        "AlterConfigsRequest AlterConfigsRequestAlterableConfig"
        " AlterConfigsRequestAlterConfigsResource AlterConfigsResponse"
        " AlterConfigsResponseAlterConfigsResourceResponse"
    ),
    "alter_partition_reassignments": (
        "AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse"
        " ReassignablePartition ReassignablePartitionResponse ReassignableTopic"
        " ReassignableTopicResponse"
    ),
    "api_versions": (
        "ApiVersion ApiVersionsRequest ApiVersionsResponse FinalizedFeatureKey SupportedFeatureKey"
    ),
    "consumer_group_heartbeat": "ConsumerGroupHeartbeatAssignment ConsumerGroupHeartbeatRequest "
    "ConsumerGroupHeartbeatResponse ConsumerGroupHeartbeatTopicPartitions",
    "create_acls": "AclCreation AclCreationResult CreateAclsRequest CreateAclsResponse",
    "create_partitions": (
        "CreatePartitionsAssignment CreatePartitionsRequest CreatePartitionsResponse"
        " CreatePartitionsTopic CreatePartitionsTopicResult"
    ),
    "create_topics": (
        "CreatableReplicaAssignment CreatableTopic CreatableTopicConfig CreatableTopicConfigs"
        " CreatableTopicResult CreateTopicsRequest CreateTopicsResponse"
    ),
    "delete_acls": (
        "DeleteAclsFilter DeleteAclsFilterResult DeleteAclsMatchingAcl DeleteAclsRequest DeleteAclsResponse"
    ),
    "delete_groups": "DeletableGroupResult DeleteGroupsRequest DeleteGroupsResponse",
    "delete_records": (
        "DeleteRecordsPartition DeleteRecordsPartitionResult DeleteRecordsRequest"
        " DeleteRecordsResponse DeleteRecordsTopic DeleteRecordsTopicResult"
    ),
    "delete_topics": "DeletableTopicResult DeleteTopicsRequest DeleteTopicsResponse DeleteTopicState",
    "describe_acls": "AclDescription DescribeAclsRequest DescribeAclsResource DescribeAclsResponse",
    "describe_client_quotas": (
        "DescribeClientQuotasComponent DescribeClientQuotasEntity DescribeClientQuotasEntry"
        " DescribeClientQuotasRequest DescribeClientQuotasResponse DescribeClientQuotasValue"
    ),
    "describe_cluster": "DescribeClusterBroker DescribeClusterRequest DescribeClusterResponse",
    "describe_configs": (
        "DescribeConfigsRequest DescribeConfigsResource DescribeConfigsResourceResult"
        " DescribeConfigsResponse DescribeConfigsResult DescribeConfigsSynonym"
    ),
    "describe_groups": "DescribedGroup DescribedGroupMember DescribeGroupsRequest DescribeGroupsResponse",
    "describe_log_dirs": (
        "DescribableLogDirTopic DescribeLogDirsPartition DescribeLogDirsRequest"
        " DescribeLogDirsResponse DescribeLogDirsResult DescribeLogDirsTopic"
    ),
    "describe_producers": (
        "DescribeProducersRequest DescribeProducersRequestTopicRequest"
        " DescribeProducersResponse PartitionResponse ProducerState TopicResponse"
    ),
    "describe_topic_partitions": (
        "DescribeTopicPartitionsRequest DescribeTopicPartitionsRequestCursor"
        " DescribeTopicPartitionsRequestTopicRequest DescribeTopicPartitionsResponse"
        " DescribeTopicPartitionsResponseCursor DescribeTopicPartitionsResponsePartition"
        " DescribeTopicPartitionsResponseTopic"
    ),
    "fetch": (
        "AbortedTransaction FetchableTopicResponse FetchPartition FetchRequest FetchResponse"
        " FetchResponseEpochEndOffset FetchResponseLeaderIdAndEpoch FetchResponseNodeEndpoint"
        " FetchTopic ForgottenTopic PartitionData ReplicaState SnapshotId"
    ),
    "find_coordinator": "Coordinator FindCoordinatorRequest FindCoordinatorResponse",
    "heartbeat": "HeartbeatRequest HeartbeatResponse",
    "incremental_alter_configs": (
        "IncrementalAlterConfigsRequest IncrementalAlterConfigsRequestAlterableConfig"
        " IncrementalAlterConfigsRequestAlterConfigsResource IncrementalAlterConfigsResponse"
        " IncrementalAlterConfigsResponseAlterConfigsResourceResponse"
    ),
    "init_producer_id": "InitProducerIdRequest InitProducerIdResponse",
    "join_group": "JoinGroupRequest JoinGroupRequestProtocol JoinGroupResponse JoinGroupResponseMember",
    "leave_group": "LeaveGroupRequest LeaveGroupResponse MemberIdentity MemberResponse",
    "list_config_resources": "ConfigResource ListConfigResourcesRequest ListConfigResourcesResponse",
    "list_groups": "ListedGroup ListGroupsRequest ListGroupsResponse",
    "list_offsets": (
        "ListOffsetsPartition ListOffsetsPartitionResponse ListOffsetsRequest"
        " ListOffsetsResponse ListOffsetsTopic ListOffsetsTopicResponse"
    ),
    "list_partition_reassignments": (
        "ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse"
        " ListPartitionReassignmentsTopic OngoingPartitionReassignment OngoingTopicReassignment"
    ),
    "metadata": (
        "MetadataRequest MetadataRequestTopic MetadataResponse MetadataResponseBroker"
        " MetadataResponsePartition MetadataResponseTopic"
    ),
    "offset_commit": (
        "OffsetCommitRequest OffsetCommitRequestPartition OffsetCommitRequestTopic"
        " OffsetCommitResponse OffsetCommitResponsePartition OffsetCommitResponseTopic"
    ),
    "offset_delete": (
        "OffsetDeleteRequest OffsetDeleteRequestPartition OffsetDeleteRequestTopic"
        " OffsetDeleteResponse OffsetDeleteResponsePartition OffsetDeleteResponseTopic"
    ),
    "offset_fetch": (
        "OffsetFetchRequest OffsetFetchRequestGroup OffsetFetchRequestTopic"
        " OffsetFetchRequestTopics OffsetFetchResponse OffsetFetchResponseGroup"
        " OffsetFetchResponsePartition OffsetFetchResponsePartitions OffsetFetchResponseTopic"
        " OffsetFetchResponseTopics"
    ),
    "offset_for_leader_epoch": (
        "OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse"
        " OffsetForLeaderEpochResponseEpochEndOffset OffsetForLeaderPartition"
        " OffsetForLeaderTopic OffsetForLeaderTopicResult"
    ),
    "produce": (
        "BatchIndexAndErrorMessage PartitionProduceData PartitionProduceResponse ProduceRequest"
        " ProduceResponse ProduceResponseLeaderIdAndEpoch ProduceResponseNodeEndpoint"
        " TopicProduceData TopicProduceResponse"
    ),
    "sasl_authenticate": ("SaslAuthenticateRequest SaslAuthenticateResponse"),
    "alter_user_scram_credentials": (
        "AlterUserScramCredentialsRequest"
        " AlterUserScramCredentialsResponse"
        " AlterUserScramCredentialsResult"
        " ScramCredentialDeletion"
        " ScramCredentialUpsertion"
    ),
    "describe_user_scram_credentials": (
        "DescribeUserScramCredentialsCredentialInfo"
        " DescribeUserScramCredentialsRequest"
        " DescribeUserScramCredentialsResponse"
        " DescribeUserScramCredentialsResult"
        " DescribeUserScramCredentialsUserName"
    ),
    "sasl_handshake": ("SaslHandshakeRequest SaslHandshakeResponse"),
    "sync_group": "SyncGroupRequest SyncGroupRequestAssignment SyncGroupResponse",
    "share_group_heartbeat": (
        "ShareGroupHeartbeatAssignment "
        "ShareGroupHeartbeatRequest "
        "ShareGroupHeartbeatResponse "
        "ShareGroupHeartbeatTopicPartitions"
    ),
    "share_fetch": (
        "ShareFetchAcknowledgementBatch "
        "ShareFetchAcquired "
        "ShareFetchForgottenTopic "
        "ShareFetchLeaderIdAndEpoch "
        "ShareFetchNodeEndpoint "
        "ShareFetchPartition "
        "ShareFetchPartitionResponse "
        "ShareFetchRequest "
        "ShareFetchResponse "
        "ShareFetchTopic "
        "ShareFetchTopicResponse"
    ),
    "share_acknowledge": (
        "ShareAcknowledgeBatch "
        "ShareAcknowledgeLeaderIdAndEpoch "
        "ShareAcknowledgeNodeEndpoint "
        "ShareAcknowledgePartition "
        "ShareAcknowledgePartitionResponse "
        "ShareAcknowledgeRequest "
        "ShareAcknowledgeResponse "
        "ShareAcknowledgeTopic "
        "ShareAcknowledgeTopicResponse"
    ),
    "initialize_share_group_state": (
        "InitializeShareGroupStatePartition "
        "InitializeShareGroupStatePartitionResult "
        "InitializeShareGroupStateRequest "
        "InitializeShareGroupStateResponse "
        "InitializeShareGroupStateTopic "
        "InitializeShareGroupStateTopicResult"
    ),
    "read_share_group_state": (
        "ReadShareGroupStateBatch "
        "ReadShareGroupStatePartition "
        "ReadShareGroupStatePartitionResult "
        "ReadShareGroupStateRequest "
        "ReadShareGroupStateResponse "
        "ReadShareGroupStateTopic "
        "ReadShareGroupStateTopicResult"
    ),
    "write_share_group_state": (
        "WriteShareGroupStateBatch "
        "WriteShareGroupStatePartition "
        "WriteShareGroupStatePartitionResult "
        "WriteShareGroupStateRequest "
        "WriteShareGroupStateResponse "
        "WriteShareGroupStateTopic "
        "WriteShareGroupStateTopicResult"
    ),
    "delete_share_group_state": (
        "DeleteShareGroupStatePartition "
        "DeleteShareGroupStatePartitionResult "
        "DeleteShareGroupStateRequest "
        "DeleteShareGroupStateResponse "
        "DeleteShareGroupStateTopic "
        "DeleteShareGroupStateTopicResult"
    ),
    "read_share_group_state_summary": (
        "ReadShareGroupStateSummaryPartition "
        "ReadShareGroupStateSummaryPartitionResult "
        "ReadShareGroupStateSummaryRequest "
        "ReadShareGroupStateSummaryResponse "
        "ReadShareGroupStateSummaryTopic "
        "ReadShareGroupStateSummaryTopicResult"
    ),
    "describe_share_group_offsets": (
        "DescribeShareGroupOffsetsGroup "
        "DescribeShareGroupOffsetsPartition "
        "DescribeShareGroupOffsetsRequest "
        "DescribeShareGroupOffsetsResponse "
        "DescribeShareGroupOffsetsResponseGroup "
        "DescribeShareGroupOffsetsResponseTopic "
        "DescribeShareGroupOffsetsTopic"
    ),
    "alter_share_group_offsets": (
        "AlterShareGroupOffsetsPartition "
        "AlterShareGroupOffsetsRequest "
        "AlterShareGroupOffsetsResponse "
        "AlterShareGroupOffsetsResponsePartition "
        "AlterShareGroupOffsetsResponseTopic "
        "AlterShareGroupOffsetsTopic"
    ),
    "delete_share_group_offsets": (
        "DeleteShareGroupOffsetsRequest "
        "DeleteShareGroupOffsetsResponse "
        "DeleteShareGroupOffsetsResponseTopic "
        "DeleteShareGroupOffsetsTopic"
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "AbortedTransaction",
    "AclCreation",
    "AclCreationResult",
    "AclDescription",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
    "AlterClientQuotasEntity",
    "AlterClientQuotasEntry",
    "AlterClientQuotasOperation",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterClientQuotasResult",
    "AlterClientQuotasResultEntity",
    "AlterConfigsRequest",
    "AlterConfigsRequestAlterConfigsResource",
    "AlterConfigsRequestAlterableConfig",
    "AlterConfigsResponse",
    "AlterConfigsResponseAlterConfigsResourceResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterShareGroupOffsetsPartition",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsResponsePartition",
    "AlterShareGroupOffsetsResponseTopic",
    "AlterShareGroupOffsetsTopic",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "AlterUserScramCredentialsResult",
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "BatchIndexAndErrorMessage",
    "ConfigResource",
    "ConsumerGroupDescribeAssignment",
    "ConsumerGroupDescribeDescribedGroup",
    "ConsumerGroupDescribeMember",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupDescribeTopicPartitions",
    "ConsumerGroupHeartbeatAssignment",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerGroupHeartbeatTopicPartitions",
    "Coordinator",
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeletableGroupResult",
    "DeletableTopicResult",
    "DeleteAclsFilter",
    "DeleteAclsFilterResult",
    "DeleteAclsMatchingAcl",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsResponseTopic",
    "DeleteShareGroupOffsetsTopic",
    "DeleteShareGroupStatePartition",
    "DeleteShareGroupStatePartitionResult",
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "DeleteShareGroupStateTopic",
    "DeleteShareGroupStateTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribableLogDirTopic",
    "DescribeAclsRequest",
    "DescribeAclsResource",
    "DescribeAclsResponse",
    "DescribeClientQuotasComponent",
    "DescribeClientQuotasEntity",
    "DescribeClientQuotasEntry",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClientQuotasValue",
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
    "DescribeProducersRequest",
    "DescribeProducersRequestTopicRequest",
    "DescribeProducersResponse",
    "DescribeShareGroupOffsetsGroup",
    "DescribeShareGroupOffsetsPartition",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "DescribeShareGroupOffsetsResponseGroup",
    "DescribeShareGroupOffsetsResponseTopic",
    "DescribeShareGroupOffsetsTopic",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsRequestCursor",
    "DescribeTopicPartitionsRequestTopicRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponseCursor",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeTransactionsTopicData",
    "DescribeTransactionsTransactionState",
    "DescribeUserScramCredentialsCredentialInfo",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResult",
    "DescribeUserScramCredentialsUserName",
    "DescribedGroup",
    "DescribedGroupMember",
    "ElectLeadersPartitionResult",
    "ElectLeadersReplicaElectionResult",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "ElectLeadersTopicPartitions",
    "EndTxnRequest",
    "EndTxnResponse",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchResponseEpochEndOffset",
    "FetchResponseLeaderIdAndEpoch",
    "FetchResponseNodeEndpoint",
    "FetchTopic",
    "FetchableTopicResponse",
    "FinalizedFeatureKey",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "ForgottenTopic",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsRequestAlterConfigsResource",
    "IncrementalAlterConfigsRequestAlterableConfig",
    "IncrementalAlterConfigsResponse",
    "IncrementalAlterConfigsResponseAlterConfigsResourceResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "InitializeShareGroupStatePartition",
    "InitializeShareGroupStatePartitionResult",
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "InitializeShareGroupStateTopic",
    "InitializeShareGroupStateTopicResult",
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListPartitionReassignmentsTopic",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "ListTransactionsTransactionState",
    "ListedGroup",
    "MemberIdentity",
    "MemberResponse",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderEpochResponseEpochEndOffset",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
    "OngoingPartitionReassignment",
    "OngoingTopicReassignment",
    "PartitionData",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "PartitionResponse",
    "ProduceRequest",
    "ProduceResponse",
    "ProduceResponseLeaderIdAndEpoch",
    "ProduceResponseNodeEndpoint",
    "ProducerState",
    "ReadShareGroupStateBatch",
    "ReadShareGroupStatePartition",
    "ReadShareGroupStatePartitionResult",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "ReadShareGroupStateSummaryPartition",
    "ReadShareGroupStateSummaryPartitionResult",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
    "ReadShareGroupStateSummaryTopic",
    "ReadShareGroupStateSummaryTopicResult",
    "ReadShareGroupStateTopic",
    "ReadShareGroupStateTopicResult",
    "ReassignablePartition",
    "ReassignablePartitionResponse",
    "ReassignableTopic",
    "ReassignableTopicResponse",
    "ReplicaState",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ScramCredentialDeletion",
    "ScramCredentialUpsertion",
    "ShareAcknowledgeBatch",
    "ShareAcknowledgeLeaderIdAndEpoch",
    "ShareAcknowledgeNodeEndpoint",
    "ShareAcknowledgePartition",
    "ShareAcknowledgePartitionResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareAcknowledgeTopic",
    "ShareAcknowledgeTopicResponse",
    "ShareFetchAcknowledgementBatch",
    "ShareFetchAcquired",
    "ShareFetchForgottenTopic",
    "ShareFetchLeaderIdAndEpoch",
    "ShareFetchNodeEndpoint",
    "ShareFetchPartition",
    "ShareFetchPartitionResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareFetchTopic",
    "ShareFetchTopicResponse",
    "ShareGroupDescribeAssignment",
    "ShareGroupDescribeDescribedGroup",
    "ShareGroupDescribeMember",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupDescribeTopicPartitions",
    "ShareGroupHeartbeatAssignment",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareGroupHeartbeatTopicPartitions",
    "SnapshotId",
    "StreamsGroupDescribeAssignment",
    "StreamsGroupDescribeDescribedGroup",
    "StreamsGroupDescribeEndpoint",
    "StreamsGroupDescribeKeyValue",
    "StreamsGroupDescribeMember",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupDescribeSubtopology",
    "StreamsGroupDescribeTaskIds",
    "StreamsGroupDescribeTaskOffset",
    "StreamsGroupDescribeTopicInfo",
    "StreamsGroupDescribeTopology",
    "StreamsGroupDescribeTopologyDescription",
    "StreamsGroupDescribeTopologyDescriptionGlobalStore",
    "StreamsGroupDescribeTopologyDescriptionNode",
    "StreamsGroupDescribeTopologyDescriptionSubtopology",
    "StreamsGroupHeartbeatCopartitionGroup",
    "StreamsGroupHeartbeatEndpoint",
    "StreamsGroupHeartbeatEndpointToPartitions",
    "StreamsGroupHeartbeatKeyValue",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "StreamsGroupHeartbeatStatus",
    "StreamsGroupHeartbeatSubtopology",
    "StreamsGroupHeartbeatTaskIds",
    "StreamsGroupHeartbeatTaskOffset",
    "StreamsGroupHeartbeatTopicInfo",
    "StreamsGroupHeartbeatTopicPartition",
    "StreamsGroupHeartbeatTopology",
    "SupportedFeatureKey",
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
    "TopicProduceData",
    "TopicProduceResponse",
    "TopicResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UpdateFeaturesFeatureUpdateKey",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "UpdateFeaturesUpdatableFeatureResult",
    "WritableTxnMarker",
    "WritableTxnMarkerPartitionResult",
    "WritableTxnMarkerResult",
    "WritableTxnMarkerTopic",
    "WritableTxnMarkerTopicResult",
    "WriteShareGroupStateBatch",
    "WriteShareGroupStatePartition",
    "WriteShareGroupStatePartitionResult",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "WriteShareGroupStateTopic",
    "WriteShareGroupStateTopicResult",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


def __getattr__(name: str) -> object:
    """Import a message at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
