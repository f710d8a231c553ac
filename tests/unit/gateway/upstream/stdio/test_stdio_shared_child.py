"""What changes in messages of the shared child: ids, tokens and subscriptions, and nothing else."""

import json

from accredit.errors import MessageId
from accredit.gateway.upstream.stdio import shared
from accredit.jsonrpc.frames import Notification, Request, decode_frame
from accredit.jsonrpc.methods import META_SUBSCRIPTION


def restored(text: bytes, id: MessageId, *, subscription: bool) -> bytes:
    return shared.restore_client_id(text, id, subscription=subscription)


def request(text: str) -> Request:
    frame = decode_frame(text.encode())
    assert isinstance(frame, Request)
    return frame


def notification(text: str) -> Notification:
    frame = decode_frame(text.encode())
    assert isinstance(frame, Notification)
    return frame


def test_a_request_gets_its_number_and_keeps_the_text_of_all_else() -> None:
    asked = request('{"jsonrpc":"2.0","id":"mine","method":"m","params":{"a":1.0e2,"b":"\\u00e9", "c": [ ]},"x":true}')
    expected = b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":1.0e2,"b":"\\u00e9", "c": [ ]},"x":true}'
    assert shared.number_request(asked, 5, token=False) == expected


def test_a_progress_token_becomes_the_number__two_clients_may_use_the_same() -> None:
    asked = request('{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"k":"v","progressToken":"t"},"a":1e0}}')
    text = shared.number_request(asked, 9, token=True)
    assert text == b'{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"k":"v","progressToken":9},"a":1e0}}'


def test_a_response_gets_the_clients_id_back_with_its_type() -> None:
    assert restored(b'{"jsonrpc":"2.0","id":9,"result":{"a": 1}}', "9", subscription=False) == (
        b'{"jsonrpc":"2.0","id":"9","result":{"a": 1}}'
    )


def test_the_end_of_a_subscription_names_the_clients_id() -> None:
    text = b'{"jsonrpc":"2.0","id":9,"result":{"_meta":{"%s":9}}}' % META_SUBSCRIPTION.encode()
    found = json.loads(restored(text, "mine", subscription=True))
    assert found == {"jsonrpc": "2.0", "id": "mine", "result": {"_meta": {META_SUBSCRIPTION: "mine"}}}
    plain = b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}'
    assert json.loads(restored(plain, 3, subscription=True))["id"] == 3


def test_a_notification_of_a_subscription_names_the_clients_id() -> None:
    told = notification(
        '{"jsonrpc":"2.0","method":"n","params":{"_meta":{"SUB":9,"o":0.10}}}'.replace("SUB", META_SUBSCRIPTION)
    )
    assert bytes(told.in_meta(META_SUBSCRIPTION) or b"") == b"9"
    assert shared.tag_subscription(told, "s") == (
        b'{"jsonrpc":"2.0","method":"n","params":{"_meta":{"%s":"s","o":0.10}}}' % META_SUBSCRIPTION.encode()
    )


def test_a_notification_of_no_subscription() -> None:
    assert notification('{"jsonrpc":"2.0","method":"n"}').in_meta(META_SUBSCRIPTION) is None
    assert notification('{"jsonrpc":"2.0","method":"n","params":{"_meta":{}}}').in_meta(META_SUBSCRIPTION) is None
    assert notification('{"jsonrpc":"2.0","method":"n","params":{"_meta":7}}').in_meta(META_SUBSCRIPTION) is None
    result = b'{"jsonrpc":"2.0","id":9,"result":null}'
    assert restored(result, 3, subscription=True) == b'{"jsonrpc":"2.0","id":3,"result":null}'


def test_a_param_is_replaced() -> None:
    told = notification('{"jsonrpc":"2.0","method":"n","params":{"progressToken":9,"progress":0.50}}')
    assert shared.with_param(told, "progressToken", "t") == (
        b'{"jsonrpc":"2.0","method":"n","params":{"progressToken":"t","progress":0.50}}'
    )
