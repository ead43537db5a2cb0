// SPDX-License-Identifier: Apache-2.0
// Hostile guest output on a serial console that users read as a container log: virt-tail in a real containerd, the
// node's log server, the API server, and kubectl.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startStreamNode, type StreamNode } from "../../contract/node-runtime/stream-node.ts";

const VIRT_TAIL = join(
  import.meta.dirname,
  "../../../packages/control-plane/virt-launcher/bin/virt-tail",
);
const TIMEOUT = { withinMs: 60_000 };
const OWNED = "/dev/shm/owned";
/** Length of one line: three times the limit of any of our readers. */
const ENDLESS_BYTES = 3 * 1024 * 1024;
const LIMIT_BYTES = 100_000;

/** Control sequences, shell syntax, invalid text, and characters that hide earlier text. */
const HOSTILE = Buffer.concat([
  Buffer.from("\u001b]0;owned\u0007\u001b[2J\u001b[31m\u001b]52;c;b3duZWQ=\u0007"),
  Buffer.from(`$(touch ${OWNED}) \`touch ${OWNED}\` ; touch ${OWNED} # %s%n%x \\c`),
  Buffer.from([0x00, 0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x9b, 0x0d]),
  Buffer.from("2026-11-26T00:00:00Z stdout F what looks like a line of the log\n"),
]);

/** The image's programs are read-only. */
const PROGRAMS = ["cat", "sleep", "tail"].map((name) => `${name}() { busybox ${name} "$@"; }`);

/** A filled console log, a running launcher, and the exact virt-tail command. */
const SCRIPT = [
  "busybox mkdir -p /dev/shm/launcher; cd /dev/shm/launcher; busybox mkfifo alive",
  `echo ${HOSTILE.toString("base64")} | busybox base64 -d >serial0.log`,
  `busybox head -c ${String(ENDLESS_BYTES)} /dev/zero | busybox tr '\\0' x >>serial0.log`,
  "printf '\\nthe last words\\n' >>serial0.log",
  // Locked before any process checks the holder.
  "exec 9<>alive; busybox sleep 1000 & exec 9>&-",
  ...PROGRAMS,
  "LAUNCHER_DIR=/dev/shm/launcher",
  readFileSync(VIRT_TAIL, "utf8"),
].join("\n");

let node: StreamNode;

beforeAll(async () => {
  node = await startStreamNode();
});
afterAll(() => node.close());

test("attack 111: guest output reaches the log unchanged, is not executed, and hides no log line", async () => {
  await node.pod("shouter", SCRIPT);
  const last = async (): Promise<string> =>
    (await node.session.kubectl("logs shouter --tail=1")).out;
  await eventually(async () => (await last()) === "the last words\n", TIMEOUT);

  const { out } = await node.session.kubectl(`logs shouter --limit-bytes=${String(LIMIT_BYTES)}`);
  const first = HOSTILE.toString("utf8");
  expect(out.slice(0, first.length)).toBe(first);
  expect(out.slice(first.length)).toMatch(/^x{10000,}$/);
  expect(out.length).toBeLessThanOrEqual(LIMIT_BYTES);

  const {
    code,
    out: found,
    err,
  } = await node.session.kubectl("exec shouter -- busybox find /dev/shm");
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(found).toContain("/dev/shm/launcher/serial0.log");
  expect(found).not.toContain(OWNED);
});
