"""The methods of A2A 1.0: what their params are, and what a decision has to know of them. No I/O.

Any other method does not exist here, those of A2A 0.3 (`message/send`) included.
"""

from typing import NamedTuple

from accredit.a2a import shapes

VERSION = "1.0"
"""The version that the header `A2A-Version` has to name."""


class Method(NamedTuple):
    """A method. `params` is the type of its params, `result` that of its result (None: null).

    `task` is the member of its params that names the task that it is about, "" for none. `streams` says that events
    answer it. `pushes` says that it is about push configurations.
    """

    params: type[shapes.Params]
    result: type[shapes.AgentObject] | None
    task: str = ""
    streams: bool = False
    pushes: bool = False


METHODS = {
    "SendMessage": Method(shapes.SendParams, shapes.SendResult),
    "SendStreamingMessage": Method(shapes.SendParams, shapes.StreamResult, streams=True),
    "GetTask": Method(shapes.GetParams, shapes.Task, task="id"),
    "ListTasks": Method(shapes.ListParams, shapes.ListResult),
    "CancelTask": Method(shapes.CancelParams, shapes.Task, task="id"),
    "SubscribeToTask": Method(shapes.TaskParams, shapes.StreamResult, task="id", streams=True),
    "CreateTaskPushNotificationConfig": Method(shapes.PushCreateParams, shapes.PushResult, task="task_id", pushes=True),
    "GetTaskPushNotificationConfig": Method(shapes.PushParams, shapes.PushResult, task="task_id", pushes=True),
    "ListTaskPushNotificationConfigs": Method(
        shapes.PushListParams, shapes.PushListResult, task="task_id", pushes=True
    ),
    "DeleteTaskPushNotificationConfig": Method(shapes.PushParams, None, task="task_id", pushes=True),
    "GetExtendedAgentCard": Method(shapes.Params, shapes.Card),
}
"""The methods, by name (specification section 9.4)."""
