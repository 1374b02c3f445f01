# SPDX-License-Identifier: Apache-2.0
"""The Shell over asyncssh against a real sshd."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import socket
import time

import pytest

from covalent_joblog_plugin.model.errors import AuthenticationError, OptionError, TransportError
from tests.rigs.daemons import until
from tests.rigs.ports import free_ports
from tests.rigs.slurm import SlurmRig, make_key

pytestmark = pytest.mark.slurm


async def test_a_command_gets_its_stdin_and_gives_bytes_and_exit_status(shell):
    done = await shell.run("cat; printf '\\377\\000err' >&2; exit 7", bytes(range(256)) * 5000)
    assert done.stdout == bytes(range(256)) * 5000
    assert done.stderr == b"\xff\x00err"
    assert done.exit_status == 7


async def test_bytes_that_are_not_text_hurt_no_other_command_on_the_connection(shell):
    other = asyncio.create_task(shell.run("sleep 0.5; echo fine"))
    assert (await shell.run("printf '\\377'")).stdout == b"\xff"
    assert (await other).stdout == b"fine\n"


async def test_one_connection_serves_more_commands_than_sshd_allows_at_a_time(slurm_rig, shell):
    before = slurm_rig.connections()
    commands = [shell.run(f"sleep 0.1; echo {n}") for n in range(30)]
    done = await asyncio.gather(*commands)
    assert [d.stdout for d in done] == [b"%d\n" % n for n in range(30)]
    assert slurm_rig.connections() == before + 1


async def test_refused_sessions_are_tried_again_and_end_no_other(make_shell):
    shell = make_shell(max_sessions=14)
    done = await asyncio.gather(*(shell.run(f"sleep 0.3; echo {n}") for n in range(14)))
    assert [d.stdout for d in done] == [b"%d\n" % n for n in range(14)]


async def test_a_channel_stays_open_and_says_what_it_wrote_to_stderr(shell):
    channel = await shell.channel("echo oops >&2; while read x; do echo got $x; done")
    await channel.write(b"one\n")
    assert await channel.read(100) == b"got one\n"
    await channel.write(b"two\n")
    assert await channel.read(100) == b"got two\n"
    assert await channel.close() == b"oops\n"
    assert await channel.close() == b"oops\n"


async def test_much_on_stderr_does_not_hold_up_a_channel(shell):
    channel = await shell.channel("head -c 20000000 /dev/zero >&2; echo done; read x")
    assert await asyncio.wait_for(channel.read(100), 30) == b"done\n"
    assert len(await channel.close()) == 4096


async def test_a_channel_whose_command_ends_reads_as_ended(shell):
    channel = await shell.channel("echo last")
    assert await channel.read(100) == b"last\n"
    assert await channel.read(100) == b""
    await channel.close()
    assert (await shell.run("echo on")).stdout == b"on\n"


async def test_a_closed_channel_gives_its_place_to_others(make_shell):
    shell = make_shell(max_sessions=1)
    for _ in range(5):
        channel = await shell.channel("cat")
        await channel.close()
    assert (await shell.run("echo free")).stdout == b"free\n"


async def test_a_command_that_takes_too_long_ends_on_the_far_side_too(shell, tmp_path):
    mark = tmp_path / "pid"
    with pytest.raises(TransportError, match="after 1 s"):
        await shell.run(f"echo $$ >{shlex.quote(str(mark))}; exec sleep 1000", timeout=1)
    assert not _runs(int(mark.read_text()))


async def test_a_cut_connection_is_an_error_and_the_next_command_makes_a_new_one(slurm_rig, shell):
    running = asyncio.create_task(shell.run("echo begun; sleep 100"))
    channel = await shell.channel("cat")
    await channel.write(b"x")
    assert await channel.read(1) == b"x"
    await asyncio.to_thread(slurm_rig.cut_connections)
    with pytest.raises(TransportError, match="lost"):
        await running
    with pytest.raises(TransportError, match="lost"):
        await channel.read(1)
    await channel.close()
    assert (await shell.run("echo again")).stdout == b"again\n"


@pytest.mark.usefixtures("noisy_login")
async def test_rc_files_that_talk_come_before_the_output_and_break_nothing(shell):
    done = await shell.run("echo mine")
    assert done.stdout.endswith(b"mine\n")
    assert done.exit_status == 0


async def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_the_command_to_run(
    slurm_rig, make_shell, tmp_path
):
    empty = tmp_path / "known_hosts"
    empty.touch()
    with pytest.raises(AuthenticationError) as caught:
        await make_shell(known_hosts=(str(empty),)).run("true")
    text = str(caught.value)
    assert _fingerprint(slurm_rig) in text
    assert f"ssh -p {slurm_rig.ssh_port} root@127.0.0.1" in text
    assert "not known" in text


async def test_a_changed_host_key_is_refused_and_called_so(slurm_rig, make_shell, tmp_path):
    make_key(tmp_path / "other")
    key = (tmp_path / "other.pub").read_text().split()[1]
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{slurm_rig.ssh_port} ssh-ed25519 {key}\n")
    with pytest.raises(AuthenticationError, match="has changed") as caught:
        await make_shell(known_hosts=(str(known),)).run("true")
    assert _fingerprint(slurm_rig) in str(caught.value)


async def test_no_known_hosts_file_in_the_ssh_configuration_does_not_mean_any_host(
    slurm_rig, make_shell, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / "config"
    config.write_text(slurm_rig.ssh_config.read_text().replace(str(slurm_rig.known_hosts), "none"))
    with pytest.raises(AuthenticationError, match="not known"):
        await make_shell(
            host="login", port=None, username=None, client_keys=(), known_hosts=(), ssh_config=str(config)
        ).run("true")


async def test_an_alias_of_the_ssh_configuration_is_enough(slurm_rig, make_shell):
    shell = make_shell(
        host="login",
        port=None,
        username=None,
        client_keys=(),
        known_hosts=(),
        ssh_config=str(slurm_rig.ssh_config),
    )
    assert (await shell.run("echo in")).stdout == b"in\n"


async def test_a_jump_host_is_gone_through(slurm_rig, make_shell, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh" / "config").write_text(slurm_rig.ssh_config.read_text())
    before = slurm_rig.connections()
    assert (await make_shell(jump_host="login", ssh_config=True).run("echo in")).stdout == b"in\n"
    assert slurm_rig.connections() == before + 2


async def test_a_jump_host_that_is_not_trusted_is_named_with_what_to_do(
    slurm_rig, make_shell, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    jump = f"root@127.0.0.1:{slurm_rig.ssh_port}"
    with pytest.raises(AuthenticationError, match=f"jump host {jump}.*describe the jump host"):
        await make_shell(jump_host=jump).run("true")


async def test_a_refused_key_names_it_and_is_tried_twice_and_then_not_again(slurm_rig, make_shell, tmp_path):
    make_key(tmp_path / "stranger")
    shell = make_shell(client_keys=(str(tmp_path / "stranger"),))
    before = _logins_refused(slurm_rig)
    deadline = time.monotonic() + 20
    while _logins_refused(slurm_rig) < before + 2 and time.monotonic() < deadline:
        with pytest.raises(AuthenticationError, match=r"refused the login.*stranger"):
            await shell.run("true")
        await asyncio.sleep(0.1)
    for _ in range(20):
        with pytest.raises(AuthenticationError, match="next attempt in 30 minutes"):
            await shell.run("true")
    assert _logins_refused(slurm_rig) == before + 2


async def test_a_wrong_user_is_named(make_shell):
    with pytest.raises(AuthenticationError, match=r"nobody-here@127.0.0.1.*refused the login"):
        await make_shell(username="nobody-here").run("true")


async def test_a_key_file_that_is_not_there_is_named_before_anybody_is_asked(slurm_rig, make_shell):
    before = (slurm_rig.folder / "log" / "sshd.log").read_bytes()
    with pytest.raises(OptionError, match=r"client_keys: /no/such/key does not exist on"):
        await make_shell(client_keys=("/no/such/key",)).run("true")
    assert (slurm_rig.folder / "log" / "sshd.log").read_bytes() == before


async def test_what_was_right_once_is_tried_again_and_not_called_a_wrong_option(
    slurm_rig, make_shell, tmp_path
):
    key = tmp_path / "key"
    shutil.copy(slurm_rig.client_key, key)
    shell = make_shell(client_keys=(str(key),))
    await shell.run("true")
    key.rename(tmp_path / "away")
    slurm_rig.cut_connections()
    await asyncio.to_thread(until, lambda: not shell.connected, "the end of the connection is noticed")
    with pytest.raises(TransportError, match="worked before"):
        await shell.run("true")
    (tmp_path / "away").rename(key)
    shell._attempts.not_before = 0.0
    assert (await shell.run("echo back")).stdout == b"back\n"


async def test_a_key_that_cannot_be_read_as_one_is_named(make_shell, tmp_path):
    (tmp_path / "key").write_text("not a key\n")
    with pytest.raises(OptionError, match="cannot be used"):
        await make_shell(client_keys=(str(tmp_path / "key"),)).run("true")


async def test_a_host_name_that_does_not_exist_is_an_option_to_correct(make_shell):
    with pytest.raises(OptionError, match=r"host 'no-such-host.invalid' is not known"):
        await make_shell(host="no-such-host.invalid").run("true")


async def test_a_port_where_nobody_listens_is_tried_again_later(make_shell):
    shell = make_shell(port=free_ports(1)[0])
    with pytest.raises(TransportError, match=r"cannot connect to root@127.0.0.1.*tried again"):
        await shell.run("true")
    with pytest.raises(TransportError, match="next attempt in"):
        await shell.run("true")


async def test_a_host_that_never_answers_costs_the_connect_timeout(make_shell):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(TransportError, match=r"no answer within 0.5 s"):
            await make_shell(port=silent.getsockname()[1], connect_timeout=0.5).run("true")
        assert time.monotonic() - began < 5


async def test_any_host_key_is_accepted_only_when_asked_for(make_shell, tmp_path):
    empty = tmp_path / "known_hosts"
    empty.touch()
    shell = make_shell(known_hosts=(str(empty),), check_host_key=False)
    assert (await shell.run("echo in")).stdout == b"in\n"


def _fingerprint(rig: SlurmRig) -> str:
    import asyncssh

    return asyncssh.read_public_key(rig.folder / "ssh" / "host_key.pub").get_fingerprint()


def _logins_refused(rig: SlurmRig) -> int:
    return (rig.folder / "log" / "sshd.log").read_bytes().count(b"Failed publickey")


def _runs(pid: int) -> bool:
    from tests.rigs.daemons import alive

    return alive(pid)
