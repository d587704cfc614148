"""UpdateFeatures (57): raise or lower the levels of a cluster's features (KIP-584)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    field,
)


@struct
class UpdateFeaturesFeatureUpdateKey(Message):
    """`feature_updates` in `UpdateFeaturesRequest`."""

    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field(versions="0")
    upgrade_type: Int8 = field(default=1, versions="1+")


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    """The new levels of features. Kafka: UpdateFeaturesRequest.json."""

    timeout_ms: Int32 = field(default=60000)
    feature_updates: Array[UpdateFeaturesFeatureUpdateKey]
    validate_only: Bool = field(default=False, versions="1+")


@struct
class UpdateFeaturesUpdatableFeatureResult(Message):
    """`results` in `UpdateFeaturesResponse`."""

    feature: String
    error_code: Int16
    error_message: NullableString


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    """The result of each feature. Kafka: UpdateFeaturesResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
    results: Array[UpdateFeaturesUpdatableFeatureResult] = field(versions="0-1", ignorable=True)
