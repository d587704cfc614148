"""What stands before every request and response.

A request in a flexible version has header 2, any other header 1; 0 belonged to one API that Kafka 4
dropped. A response in a flexible version has header 1, any other 0; so has every ApiVersions response,
because a client reads it before it knows what the broker speaks. Source: KIP-482, KIP-511.
"""

from kohort.protocol.schema import Int16, Int32, Message, NullableString, field, message


@message(versions="1-2", flexible="2+")
class RequestHeader(Message):
    """Which API in which version, and what the answer shall be known by.

    Kafka: RequestHeader.json. The client id keeps its old two-byte length in the flexible version.
    """

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: NullableString = field(flexible=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader(Message):
    """The correlation id of the request that is answered.

    Kafka: ResponseHeader.json.
    """

    correlation_id: Int32
