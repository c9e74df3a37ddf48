"""The settings for a job, without Spark."""

from __future__ import annotations

import pyspark
import pytest

from peermesh.spark.configuration import InvalidGateways, KeyStore, spark_conf
from peermesh.spark.local import link_home


def hadoop(settings):
    return {key.removeprefix("spark.hadoop."): value for key, value in settings.items()}


def test_one_gateway_is_waited_for_and_has_a_scheme_of_ours():
    settings = hadoop(spark_conf("node1:9870"))
    assert settings["dfs.http.client.retry.policy.enabled"] == "true"
    assert settings["fs.mesh.impl"].endswith("WebHdfsFileSystem")
    assert not [key for key in settings if "nameservices" in key]


def test_several_gateways_are_one_name():
    settings = hadoop(spark_conf("node1:9870", "node2:9871", name="store"))
    assert settings["dfs.nameservices"] == "store"
    assert settings["dfs.ha.namenodes.store"] == "gateway1,gateway2"
    assert settings["dfs.namenode.http-address.store.gateway2"] == "node2:9871"
    assert "fs.mesh.impl" not in settings, "Hadoop's fail-over does not know it"


def test_a_token_is_fetched_at_the_gateway_and_left_out_of_logs():
    settings = spark_conf("node1:9870", token="a-token-of-some-length")
    refresh = "spark.hadoop.dfs.webhdfs.oauth2.refresh.url"
    assert settings[refresh] == "http://node1:9870/token"
    assert "credential" in settings["spark.redaction.regex"]


def test_settings_that_are_joined_from_either_side_show_no_token():
    settings = spark_conf("node1:9870", token="a-token-of-some-length")
    own = {"spark.ui.enabled": "false", "spark.redaction.regex": "x"}
    for joined in (own | settings, settings | own, settings.copy()):
        assert "a-token-of-some-length" in joined.values()
        assert "a-token-of-some-length" not in repr(joined)
    assert (own | settings)["spark.redaction.regex"] == settings["spark.redaction.regex"]
    assert (settings | own)["spark.redaction.regex"] == "x"


def test_several_gateways_and_a_token_need_a_name_that_has_all_addresses():
    gateways = "node1:9870", "node2:9870"
    with pytest.raises(InvalidGateways, match="token_host="):
        spark_conf(*gateways, token="a-token-of-some-length")
    with pytest.raises(InvalidGateways, match="host:port"):
        spark_conf(*gateways, token="a-token-of-some-length", token_host="nodes")
    with pytest.raises(InvalidGateways, match="without a token"):
        spark_conf(*gateways, token_host="nodes:9870")
    settings = hadoop(
        spark_conf(*gateways, token="a-token-of-some-length", token_host="nodes:9870")
    )
    assert settings["dfs.webhdfs.oauth2.refresh.url"] == "http://nodes:9870/token"


def test_a_key_store_makes_it_tls():
    settings = spark_conf("node1:9870", "node2:9870", tls=KeyStore("/etc/client.p12", "a-password"))
    found = hadoop(settings)
    assert found["dfs.namenode.https-address.mesh.gateway2"] == "node2:9870"
    assert found["hadoop.ssl.require.client.cert"] == "true"
    for kind in ("keystore", "truststore"):
        assert found[f"ssl.client.{kind}.location"] == "/etc/client.p12"
        assert found[f"ssl.client.{kind}.password"] == "a-password"
    assert "a-password" not in repr(settings) + repr(KeyStore("/etc/client.p12", "a-password"))
    assert "password" in settings["spark.redaction.regex"]
    one = hadoop(spark_conf("node1:9870", token="a-token-of-some-length", tls=KeyStore("k", "p")))
    assert one["fs.mesh.impl"].endswith(".SWebHdfsFileSystem")
    assert one["dfs.webhdfs.oauth2.refresh.url"] == "https://node1:9870/token"


@pytest.mark.parametrize("gateways", [(), ("node1",), ("node1:port",), (":1",), ("node1:70000",)])
def test_what_is_no_address_is_refused(gateways):
    with pytest.raises(InvalidGateways):
        spark_conf(*gateways)
    with pytest.raises(InvalidGateways, match="letters"):
        spark_conf("node1:9870", name="a/b")


def test_a_home_of_links_leaves_out_sparks_python(tmp_path):
    home = link_home(tmp_path / "home")
    assert (home / "jars").is_dir()
    assert not (home / "python").exists()
    assert link_home(home) == home, "somebody may have been killed, and come again"


def test_a_home_of_links_is_refused_where_spark_is_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="SPARK_HOME name the distribution"):
        link_home(tmp_path / "home")
    assert not (tmp_path / "home").exists()
