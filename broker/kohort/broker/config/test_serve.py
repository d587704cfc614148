"""What `kohort serve` reads from its file: settings, options, and Kafka's own server.properties."""

from pathlib import Path

import pytest

from kohort.broker.config import ConfigError
from kohort.broker.config.listener_settings import named_listeners, of_listener
from kohort.broker.config.serve import changed_settings, load_serve_config, shown_setting

PROTOCOLS = "listener.security.protocol.map"
SERVER_PROPERTIES = """\
# A comment, and ! another
process.roles=broker,controller
node.id=3
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners = PLAINTEXT://kafka.example.org:9092
num.network.threads=3
log.dirs=/var/lib/kafka
num.partitions=\\
6
"""


@pytest.mark.parametrize(
    "text",
    [
        "# a folder: C:\\kafka\\\nnum.partitions=6\n",
        "log.dirs=/data\\\\\nnum.partitions=6\n",
        "num.partitions: 6",
        "num.partitions 6",
        "num.partitions=\\\n    6",
        "\ufeffnum.partitions=6",
        "num\\u002epartitions=\\u0036",
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text, encoding="utf-8")
    assert load_serve_config(file, ()).config.num_partitions == 6


def test_a_toml_file_sets_the_listen_address_and_the_data_folder(tmp_path: Path) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text('listen = "0.0.0.0:9092"\ndata = "/data"\nnum.partitions = 6\n')
    loaded = load_serve_config(file, [("num.partitions", "7")])
    assert loaded.flags == {"listen": "0.0.0.0:9092", "data": "/data"}
    assert changed_settings(loaded.config) == {"num.partitions": "7"}


def test_kafkas_own_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER_PROPERTIES)
    loaded = load_serve_config(file, ())
    assert loaded.flags == {
        "listen": "0.0.0.0:9092",
        "advertise": "kafka.example.org:9092",
        "data": "/var/lib/kafka",
    }
    assert (loaded.config.node_id, loaded.config.num_partitions) == (3, 6)
    assert loaded.passed_over == ("process.roles", "num.network.threads")


def test_several_listeners_can_be_set_in_both_formats(tmp_path: Path) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text(
        'listen = ["127.0.0.1:9092", "0.0.0.0:19092"]\nadvertise = ["localhost:9092", "broker:19092"]\n'
    )
    expected = {"listen": "127.0.0.1:9092,0.0.0.0:19092", "advertise": "localhost:9092,broker:19092"}
    assert load_serve_config(file, ()).flags == expected
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=HOST://127.0.0.1:9092,NETWORK://:19092,CONTROLLER://:9093\n"
        "advertised.listeners=NETWORK://broker:19092\n"
        "listener.security.protocol.map=HOST:PLAINTEXT,network:PLAINTEXT,CONTROLLER:SSL\n"
    )
    assert load_serve_config(file, ()).flags == {**expected, "advertise": ",broker:19092"}


@pytest.mark.parametrize(
    "name, text, right",
    [
        ("a.toml", "listen = 9092", "listen is 9092: give text in quotes"),
        (
            "a.toml",
            '"log.dirs" = "/data"',
            "log.dirs is an option of kohort serve: --data DIR; in a file, data",
        ),
        ("a.properties", "num.partitons=6", "did you mean num.partitions?"),
        ("a.properties", "num.partitions=0", "at least 1"),
        ("a.properties", "num.partitons: 6", "did you mean num.partitions?"),
        ("a.properties", "num.partitions \\u00zz", "line 1: \\u00zz is not"),
        ("a.properties", "log.dirs=/a,/b", "log.dirs names 2 folders"),
        ("a.properties", "listeners=CONTROLLER://:1", "listeners names no listener for clients"),
        (
            "a.properties",
            f"listeners=A://:1\nadvertised.listeners=B://b:2\n{PROTOCOLS}=A:PLAINTEXT,B:PLAINTEXT",
            "names B, which listeners does not",
        ),
        ("a.properties", "listeners=A://:1", "set listener.security.protocol.map=A:"),
        (
            "a.properties",
            "listeners=SSL://:1,ssl://:2\n" + PROTOCOLS + "=SSL:PLAINTEXT",
            "listeners names SSL twice",
        ),
        ("a.properties", f"{PROTOCOLS}=A=SSL\nlisteners=A://:1", "'A=SSL' is not NAME:PROTOCOL"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file(tmp_path: Path, name: str, text: str, right: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_serve_config(file, ())
    assert right in str(refused.value)
    assert str(refused.value).startswith(f"{file}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text, right",
    [
        (f"listeners=OUTSIDE://:1\n{PROTOCOLS}=OUTSIDE:KERBEROS", "OUTSIDE has the protocol KERBEROS"),
        ("listener.name.x.ssl.client.auth=required", "is not a setting of a listener"),
        ("listener.name.X.sasl.enabled.mechanisms=PLAIN", "in lower case"),
        ("listeners=SSL://:1\nssl.cipher.suites=TLS_AES_128_GCM_SHA256", "suites is not supported"),
        (
            "controller.listener.names=QUORUM\nlisteners=QUORUM://:1,CONTROLLER://:2\n"
            f"{PROTOCOLS}=QUORUM:SSL,CONTROLLER:SECRECY",
            "CONTROLLER has the protocol SECRECY",
        ),
        ("authorizer.class.name=org.example.Strict", "authorizer.class.name: "),
    ],
)
def test_a_file_with_unsupported_security_settings_is_refused(tmp_path: Path, text: str, right: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_serve_config(file, ())
    assert right in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_listener_with_ssl_has_an_ssl_address(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=INSIDE://:9092,OUTSIDE://:9093\nadvertised.listeners=OUTSIDE://broker:9093\n"
        f"{PROTOCOLS}=INSIDE:PLAINTEXT,OUTSIDE:SSL\nssl.keystore.type=PEM\nssl.key.password=hush\n"
    )
    loaded = load_serve_config(file, ())
    assert loaded.flags == {"listen": "0.0.0.0:9092,OUTSIDE:SSL://0.0.0.0:9093", "advertise": ",broker:9093"}
    assert changed_settings(loaded.config)["ssl.key.password"] == "[hidden]"
    assert "hush" not in repr(loaded.config)


def test_settings_of_one_listener_apply_only_to_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    jaas = 'PlainLoginModule required user_a="hush";'
    file.write_text(f"listener.name.out_side.plain.sasl.jaas.config={jaas}\nsasl.enabled.mechanisms=PLAIN\n")
    loaded = load_serve_config(file, [("listener.name.inside.sasl.enabled.mechanisms", "PLAIN")])
    settings = loaded.config.kohort_listener_settings
    assert of_listener(settings, "OUT_SIDE") == {"plain.sasl.jaas.config": jaas}
    assert of_listener(settings, "inside") == {"sasl.enabled.mechanisms": "PLAIN"}
    assert named_listeners(settings) == {"out_side", "inside"}
    assert "hush" not in repr(loaded.config) + repr(changed_settings(loaded.config))


def test_quorum_listeners_can_have_tls_because_they_are_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "controller.listener.names=QUORUM\nlisteners=QUORUM://:1,PLAINTEXT://:2\n"
        f"{PROTOCOLS}=QUORUM:SSL,PLAINTEXT:PLAINTEXT\nauthorizer.class.name=\n"
    )
    assert load_serve_config(file, ()).flags == {"listen": "0.0.0.0:2"}


@pytest.mark.parametrize(
    "name, option",
    [
        ("log.dirs", "--data DIR"),
        ("listeners", "--listen HOST:PORT"),
        ("advertised.listeners", "--advertise HOST:PORT"),
        ("listen", "--listen x"),
    ],
)
def test_a_setting_that_is_a_command_line_option_names_the_option(name: str, option: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_serve_config(None, [(name, "x")])
    assert option in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("num.partitions=4", "num.partitions=4"),
        ("ssl.key.password=hush=hush", "ssl.key.password=[hidden]"),
        ("kohort.schema.registry.url=http://me:hush@h", "kohort.schema.registry.url=[hidden]"),
        ("listener.name.in.plain.sasl.jaas.config=hush", "listener.name.in.plain.sasl.jaas.config=[hidden]"),
        ("Ssl.key.password=hush", "Ssl.key.password=[hidden]"),
    ],
)
def test_a_setting_is_shown_without_its_secret(setting: str, shown: str) -> None:
    assert shown_setting(setting) == shown
