"""ListGroups: every group of this groups. Kafka: KafkaApis.handleListGroupsRequest, KIP-518, KIP-848."""

from kohort.broker.group import ListGroups
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.protocol.schema import Message


def handle(groups: GroupServices, message: ListGroupsRequest, request: Request) -> ListGroupsResponse | None:
    """Ask every shard. While one is loading the list would be incomplete, so an error is returned instead."""
    try:
        shards = list(groups.shards.active())
    except ApiError as error:
        return ListGroupsResponse(error_code=error.code, groups=())
    if not shards:
        return ListGroupsResponse(error_code=0, groups=())

    def finish(parts: tuple[Message, ...]) -> None:
        listed = [group for part in parts if isinstance(part, ListGroupsResponse) for group in part.groups]
        request.respond(ListGroupsResponse(error_code=0, groups=tuple(listed)))

    gather = Gather(len(shards), finish)
    for position, shard in enumerate(shards):
        request_id = shard.ask(request, gather.place(position))
        shard.submit(ListGroups(request_id, message.states_filter, message.types_filter))
    return None
