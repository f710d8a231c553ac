"""The objects of A2A 1.0, as `msgspec` reads them (specification/a2a.proto, in the JSON form of ProtoJSON), and its
methods. No I/O.

ProtoJSON lets a reader take several spellings of one object: `task_id` for `taskId`, a number for an enum or in a
string, null for what is absent. Other readers take only one of them. So what comes from a client (`ClientObject`) has
members of the specification only, in the spelling that it shows, and nothing in another form. What comes from an agent
(`AgentObject`) is read in the same way. Only what was read is sent on, so members that the specification does not have
are left out.

`metadata` and other members of free form stay text. They are not read here; it is only checked that they are objects
where they must be.

A method that is not in `METHODS` does not exist here. That includes those of A2A 0.3 (`message/send`).
"""

from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from accredit.base.values import decodable
from accredit.limits import MAX_AGENT_ID_CHARS

MAX_AGENT_ITEMS = 10_000
"""The most items in one array of an object: parts of a message, tasks of a list, messages of a history."""

Id = Annotated[str, Meta(min_length=1, max_length=MAX_AGENT_ID_CHARS)]
Text = str | UnsetType
Maybe = bool | UnsetType
Number = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | UnsetType
_MOST = Meta(max_length=MAX_AGENT_ITEMS)
Texts = Annotated[list[str], _MOST] | UnsetType
State = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]

ABSENT = Raw()
"""Stands for a member of free form that is absent."""


class ClientObject(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """An object in a client's request."""


class AgentObject(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object in an agent's answer."""


class AnsweredAuthentication(AgentObject, frozen=True, kw_only=True):
    """`AuthenticationInfo` in an answer: how an agent authenticates to whom it pushes."""

    scheme: str
    credentials: Text = UNSET


class Authentication(AnsweredAuthentication, frozen=True, forbid_unknown_fields=True):
    """`AuthenticationInfo` in a request."""


class Part(AgentObject, frozen=True, kw_only=True):
    """`Part` of what an agent answers. One of the first four members is there."""

    text: Text = UNSET
    raw: Text = UNSET
    url: Text = UNSET
    data: Raw = ABSENT
    metadata: Raw = ABSENT
    filename: Text = UNSET
    media_type: Text = UNSET


class SentPart(Part, frozen=True, forbid_unknown_fields=True):
    """`Part` of a client's message."""


class PushConfig(ClientObject, frozen=True, kw_only=True):
    """`TaskPushNotificationConfig`."""

    url: str
    id: Text = UNSET
    task_id: Text = UNSET
    tenant: Annotated[str, Meta(max_length=0)] | UnsetType = UNSET
    token: Text = UNSET
    authentication: Authentication | UnsetType = UNSET


class SentMessage(ClientObject, frozen=True, kw_only=True):
    """`Message` of a client."""

    message_id: Id
    role: Literal["ROLE_USER"]
    parts: Annotated[list[SentPart], Meta(min_length=1, max_length=MAX_AGENT_ITEMS)]
    context_id: Id | UnsetType = UNSET
    task_id: Id | UnsetType = UNSET
    reference_task_ids: Annotated[list[Id], _MOST] | UnsetType = UNSET
    extensions: Texts = UNSET
    metadata: Raw = ABSENT


class Configuration(ClientObject, frozen=True, kw_only=True):
    """`SendMessageConfiguration`."""

    accepted_output_modes: Texts = UNSET
    task_push_notification_config: PushConfig | UnsetType = UNSET
    history_length: Number = UNSET
    return_immediately: Maybe = UNSET


class Params(ClientObject, frozen=True, kw_only=True):
    """The members that the params of all methods have."""

    tenant: Text = UNSET


class SendParams(Params, frozen=True, kw_only=True):
    """`SendMessageRequest`."""

    message: SentMessage
    configuration: Configuration | UnsetType = UNSET
    metadata: Raw = ABSENT


class TaskParams(Params, frozen=True, kw_only=True):
    """`SubscribeToTaskRequest`. Other requests about a task have more members."""

    id: Id


class GetParams(TaskParams, frozen=True, kw_only=True):
    """`GetTaskRequest`."""

    history_length: Number = UNSET


class CancelParams(TaskParams, frozen=True, kw_only=True):
    """`CancelTaskRequest`."""

    metadata: Raw = ABSENT


class ListParams(Params, frozen=True, kw_only=True):
    """`ListTasksRequest`."""

    context_id: Text = UNSET
    status: State | UnsetType = UNSET
    page_size: Number = UNSET
    page_token: Text = UNSET
    history_length: Number = UNSET
    status_timestamp_after: Text = UNSET
    include_artifacts: Maybe = UNSET

    @property
    def filters(self) -> bool:
        """Whether the list may leave out tasks of the caller's."""
        return any((self.context_id, self.status, self.status_timestamp_after))


class PushParams(Params, frozen=True, kw_only=True):
    """`GetTaskPushNotificationConfigRequest`, and `DeleteTaskPushNotificationConfigRequest`."""

    task_id: Id
    id: Id


class PushListParams(Params, frozen=True, kw_only=True):
    """`ListTaskPushNotificationConfigsRequest`."""

    task_id: Id
    page_size: Number = UNSET
    page_token: Text = UNSET


class PushCreateParams(Params, frozen=True, kw_only=True):
    """`TaskPushNotificationConfig`, as a request."""

    task_id: Id
    url: str
    id: Text = UNSET
    token: Text = UNSET
    authentication: Authentication | UnsetType = UNSET


Parts = Annotated[list[Part], _MOST]


class Message(AgentObject, frozen=True, kw_only=True):
    """`Message`, of an agent or in a task's history."""

    message_id: str
    role: Literal["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED"]
    parts: Parts
    context_id: Text = UNSET
    task_id: Text = UNSET
    reference_task_ids: Texts = UNSET
    extensions: Texts = UNSET
    metadata: Raw = ABSENT


class Artifact(AgentObject, frozen=True, kw_only=True):
    """`Artifact`."""

    artifact_id: str
    parts: Parts
    name: Text = UNSET
    description: Text = UNSET
    extensions: Texts = UNSET
    metadata: Raw = ABSENT


class Status(AgentObject, frozen=True, kw_only=True):
    """`TaskStatus`."""

    state: State
    message: Message | UnsetType = UNSET
    timestamp: Text = UNSET


class Task(AgentObject, frozen=True, kw_only=True):
    """`Task`."""

    id: Id
    status: Status
    context_id: Text = UNSET
    artifacts: Annotated[list[Artifact], _MOST] | UnsetType = UNSET
    history: Annotated[list[Message], _MOST] | UnsetType = UNSET
    metadata: Raw = ABSENT


class StatusUpdate(AgentObject, frozen=True, kw_only=True):
    """`TaskStatusUpdateEvent`."""

    task_id: Id
    context_id: str
    status: Status
    metadata: Raw = ABSENT


class ArtifactUpdate(AgentObject, frozen=True, kw_only=True):
    """`TaskArtifactUpdateEvent`."""

    task_id: Id
    context_id: str
    artifact: Artifact
    append: Maybe = UNSET
    last_chunk: Maybe = UNSET
    metadata: Raw = ABSENT


class SendResult(AgentObject, frozen=True, kw_only=True):
    """`SendMessageResponse`, which has exactly one of the two members."""

    task: Task | UnsetType = UNSET
    message: Message | UnsetType = UNSET


class StreamResult(SendResult, frozen=True, kw_only=True):
    """`StreamResponse`: one of the four members."""

    status_update: StatusUpdate | UnsetType = UNSET
    artifact_update: ArtifactUpdate | UnsetType = UNSET


class ListResult(AgentObject, frozen=True, kw_only=True):
    """`ListTasksResponse`."""

    tasks: Annotated[list[Task], _MOST]
    next_page_token: Text = UNSET
    page_size: Number = UNSET
    total_size: Number = UNSET


class PushResult(AgentObject, frozen=True, kw_only=True):
    """`TaskPushNotificationConfig` in an answer."""

    url: str
    id: Text = UNSET
    task_id: Text = UNSET
    token: Text = UNSET
    authentication: AnsweredAuthentication | UnsetType = UNSET


class PushListResult(AgentObject, frozen=True, kw_only=True):
    """`ListTaskPushNotificationConfigsResponse`."""

    configs: Annotated[list[PushResult], _MOST] = []
    next_page_token: Text = UNSET


class Provider(AgentObject, frozen=True, kw_only=True):
    """`AgentProvider`."""

    url: str
    organization: str


class Extension(AgentObject, frozen=True, kw_only=True):
    """`AgentExtension`."""

    uri: str
    description: Text = UNSET
    required: Maybe = UNSET
    params: Raw = ABSENT


class Capabilities(AgentObject, frozen=True, kw_only=True):
    """`AgentCapabilities`."""

    streaming: Maybe = UNSET
    push_notifications: Maybe = UNSET
    extensions: Annotated[list[Extension], _MOST] | UnsetType = UNSET
    extended_agent_card: Maybe = UNSET


class Schemes(AgentObject, frozen=True, kw_only=True):
    """`SecurityRequirement`: scopes by the names of schemes, all of which are needed."""

    schemes: dict[str, Raw] = {}


Requirements = Annotated[list[Schemes], _MOST]


class Skill(AgentObject, frozen=True, kw_only=True):
    """`AgentSkill`."""

    id: Id
    name: str
    description: str
    tags: Texts = UNSET
    examples: Texts = UNSET
    input_modes: Texts = UNSET
    output_modes: Texts = UNSET
    security_requirements: Requirements | UnsetType = UNSET


class Interface(AgentObject, frozen=True, kw_only=True):
    """`AgentInterface`, without a tenant."""

    url: str
    protocol_binding: str
    protocol_version: str


@decodable
class Card(AgentObject, frozen=True, kw_only=True):
    """`AgentCard`, without its signatures: they sign what the agent itself has written."""

    name: str
    description: str
    version: str
    capabilities: Capabilities
    supported_interfaces: Annotated[list[Interface], _MOST] = []
    default_input_modes: Texts = UNSET
    default_output_modes: Texts = UNSET
    skills: Annotated[list[Skill], _MOST] | UnsetType = UNSET
    provider: Provider | UnsetType = UNSET
    documentation_url: Text = UNSET
    icon_url: Text = UNSET
    security_schemes: dict[str, Raw] | UnsetType = UNSET
    security_requirements: Requirements | UnsetType = UNSET


VERSION = "1.0"
"""The version that the header `A2A-Version` has to name."""


class Method(NamedTuple):
    """A method. `params` is the type of its params, `result` that of its result (None: null).

    `task` is the member of its params that names the task that it is about, "" for none. `streams` says that events
    answer it. `pushes` says that it is about push configurations.
    """

    params: type[Params]
    result: type[AgentObject] | None
    task: str = ""
    streams: bool = False
    pushes: bool = False


METHODS = {
    "SendMessage": Method(SendParams, SendResult),
    "SendStreamingMessage": Method(SendParams, StreamResult, streams=True),
    "GetTask": Method(GetParams, Task, task="id"),
    "ListTasks": Method(ListParams, ListResult),
    "CancelTask": Method(CancelParams, Task, task="id"),
    "SubscribeToTask": Method(TaskParams, StreamResult, task="id", streams=True),
    "CreateTaskPushNotificationConfig": Method(PushCreateParams, PushResult, task="task_id", pushes=True),
    "GetTaskPushNotificationConfig": Method(PushParams, PushResult, task="task_id", pushes=True),
    "ListTaskPushNotificationConfigs": Method(PushListParams, PushListResult, task="task_id", pushes=True),
    "DeleteTaskPushNotificationConfig": Method(PushParams, None, task="task_id", pushes=True),
    "GetExtendedAgentCard": Method(Params, Card),
}
"""The methods, by name (specification section 9.4)."""

for _method in METHODS.values():
    decodable(_method.params)
    if _method.result is not None:
        decodable(_method.result)
