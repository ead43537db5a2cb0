// SPDX-License-Identifier: Apache-2.0
// kubectl logs and exec through the API server and the node's server to a real containerd.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { createClock, createFiles } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rotateLogs } from "../../../packages/standalone/node-runtime/src/log-rotation.ts";
import { upgrade } from "../apiserver/upgrade.ts";
import { startStreamNode, type RunningPod, type StreamNode } from "./stream-node.ts";

const TIMEOUT = { withinMs: 15_000 };
const STAY = "while :; do busybox sleep 1; done";

let node: StreamNode;

beforeAll(async () => {
  node = await startStreamNode();
});

afterAll(async () => {
  await node.close();
});

function kubectl(line: string, ...more: readonly string[]) {
  return node.session.kubectl(line, ...more);
}

async function untilEnded(id: string): Promise<void> {
  await eventually(
    async () => (await node.bench.runtime.findContainer(id))?.state === "EXITED",
    TIMEOUT,
  );
}

describe("kubectl logs", () => {
  let pod: RunningPod;
  const long = "x".repeat(40_000);

  beforeAll(async () => {
    pod = await node.pod(
      "spoken",
      `echo one; busybox sleep 0.2; echo two >&2; busybox sleep 0.2; echo three; busybox printf '%040000d\\n' 0`,
    );
    await untilEnded(pod.containerId);
  });

  test("prints both streams in full and joins lines that the runtime split", async () => {
    const lengths = (text: string) => text.split("\n").map((line) => line.length);
    expect(lengths((await kubectl("logs spoken")).out)).toEqual([3, 3, 5, long.length, 0]);
    expect(lengths((await kubectl("logs spoken --tail=1")).out)).toEqual([long.length, 0]);
  });

  test("prints the end, the beginning, and timestamps", async () => {
    expect((await kubectl("logs spoken --tail=2 --limit-bytes=7")).out).toBe("three\n0");
    expect((await kubectl("logs spoken --limit-bytes=5")).out).toMatch(/^one\nt$/);
    const { out } = await kubectl("logs spoken --timestamps --limit-bytes=39");
    expect(out).toMatch(/^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{9}(Z|[+-]\d\d:\d\d) one\n/);
    expect((await kubectl("logs spoken --since=1h --tail=3")).out).toContain("three");
  });

  test("prints the previous run", async () => {
    expect((await kubectl("logs spoken -p")).err).toContain("previous terminated container");
    const id = await pod.again("echo again");
    await untilEnded(id);
    expect((await kubectl("logs spoken")).out).toBe("again\n");
    expect((await kubectl("logs spoken --previous --limit-bytes=4")).out).toBe("one\n");
  });

  test("-f follows until the container ends", async () => {
    const counting = await node.pod(
      "counting",
      "i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo $i; busybox sleep 0.2; done",
    );
    expect((await kubectl("logs -f counting")).out).toBe("1\n2\n3\n4\n5\n");
    await untilEnded(counting.containerId);
  });

  test("reports a missing log", async () => {
    expect((await kubectl("logs spoken -c other")).err).toContain(
      "container other is not valid for pod spoken",
    );
    expect((await kubectl("logs nobody")).err).toContain('pods "nobody" not found');
  });
});

describe("kubectl exec", () => {
  beforeAll(async () => {
    await node.pod("running", STAY);
  });

  test("runs a program with separate outputs and its exit code", async () => {
    const { code, out, err } = await kubectl(
      "exec running -- sh -c",
      "echo out; echo err >&2; exit 3",
    );
    expect([code, out]).toEqual([3, "out\n"]);
    expect(err).toMatch(/^err\n/);
  });

  /** Runs with standard input; `-t` needs a terminal, which script provides. */
  async function speak(command: readonly [string, ...string[]], input: string): Promise<string> {
    const [program, ...args] = command;
    const child = spawn(program, args, {
      env: node.session.env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const ended = new Promise((resolve) => child.once("close", resolve));
    child.stdin.write(input);
    await eventually(() => output.includes("done"), TIMEOUT);
    child.stdin.end();
    await ended;
    return output;
  }

  test("-i sends input and its end", async () => {
    const command = ["kubectl", "exec", "-i", "running", "--", "busybox", "cat"] as const;
    expect(await speak([...command], "typed\ndone\n")).toBe("typed\ndone\n");
  });

  test("-it is a terminal", async () => {
    const line =
      "kubectl exec -it running -- sh -c 'busybox tty; read word; echo $word; echo do''ne'";
    const output = await speak(["script", "-qec", line, "/dev/null"], "typed\n");
    expect(output).toMatch(/\/dev\/pts\/\d+\r\n/);
    expect(output).toContain("typed");
  });

  test("transfers large data without loss", async () => {
    const { out } = await kubectl("exec running -- sh -c", "busybox seq 1 60000");
    expect(out.trimEnd().split("\n")).toHaveLength(60_000);
    expect(out.endsWith("\n60000\n")).toBe(true);
  });

  test("kubectl attach prints what the container's own program prints from then on", async () => {
    await node.pod("talking", "while :; do echo word; busybox sleep 0.2; done");
    const attached = node.session.follow("attach talking");
    let output = "";
    attached.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    await eventually(() => output.includes("word\nword\n"), TIMEOUT);
    attached.kill();
  });

  test("reports what cannot be executed", async () => {
    const missing = await kubectl("exec running -- no-such-program");
    expect([missing.code, missing.err]).toEqual([
      expect.any(Number),
      expect.stringContaining("no-such-program"),
    ]);
    const over = await node.pod("over", "exit 0");
    await untilEnded(over.containerId);
    expect((await kubectl("exec over -- sh")).err).toContain('container not found ("main")');
  });
});

describe("a WebSocket", () => {
  const STREAM = { upgrade: "websocket", "sec-websocket-version": "13" };
  const RUN = "/exec?command=sh&command=-c&command=echo+out&stdout=true&stderr=true";

  beforeAll(async () => {
    await node.pod("framed", STAY);
  });

  function open(protocol: string) {
    const path = `/api/v1/namespaces/default/pods/framed${RUN}`;
    return upgrade(node.session.api, path, { ...STREAM, "sec-websocket-protocol": protocol });
  }

  test("runs a program where the runtime supports its protocol", async () => {
    const { answer, socket } = await open("v4.channel.k8s.io");
    expect([answer.statusCode, answer.headers["sec-websocket-protocol"]]).toEqual([
      101,
      "v4.channel.k8s.io",
    ]);
    let output = "";
    socket?.on("data", (chunk: Buffer) => (output += chunk.toString("latin1")));
    // Frames: stream 1 is the output, stream 3 the exit status.
    await eventually(
      () => /\u0001out\n/.test(output) && output.includes('"status":"Success"'),
      TIMEOUT,
    );
    socket?.destroy();
  });

  test("newer protocols are rejected so that current clients fall back, or work", async () => {
    const { answer, socket } = await open("v5.channel.k8s.io");
    socket?.destroy();
    const works = [101, answer.headers["sec-websocket-protocol"]];
    expect([
      [101, "v5.channel.k8s.io"],
      [403, undefined],
    ]).toContainEqual(answer.statusCode === 101 ? works : [answer.statusCode, undefined]);
  });
});

describe("logs that grow", () => {
  test("are rotated under their followers without lost lines", async () => {
    const stop = new AbortController();
    const { runtime } = node.bench;
    const deps = { runtime, files: createFiles(), clock: createClock(), log: createSilentLogger() };
    rotateLogs({ ...deps, bounds: { bytesMax: 20_000, filesMax: 3 } }, stop.signal);
    // Prints nothing more until it is told to.
    const begin = `go=; trap 'go=1' USR1; echo 0; while [ -z "$go" ]; do busybox sleep 0.1; done`;
    const steps = ["seq 1 1500", "sleep 1", "seq 1501 3000", "sleep 1", "seq 3001 4000", "sleep 1"];
    const script = [begin, ...steps.map((step) => `busybox ${step}`)].join("; ");
    const { containerId } = await node.pod("growing", script);
    const followed = node.session.follow("logs -f growing");
    let out = "";
    followed.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
    const closed = new Promise((resolve) => followed.once("close", resolve));
    await eventually(() => out.startsWith("0\n"), TIMEOUT);
    await runtime.execSync(containerId, ["/bin/busybox", "kill", "-USR1", "1"], 10);
    await untilEnded(containerId);
    await closed;
    stop.abort();
    const lines = out.trimEnd().split("\n");
    const lost = lines.findIndex((line, index) => line !== String(index));
    expect([lost, lines.length]).toEqual([-1, 4001]);
    const log = (await runtime.findContainer(containerId))?.logPath ?? "";
    const names = readdirSync(dirname(log));
    expect(names).toContain("0.log");
    expect(names.length).toBeGreaterThan(1);
    expect(names.length).toBeLessThanOrEqual(3);
  });
});
