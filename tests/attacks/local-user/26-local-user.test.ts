// SPDX-License-Identifier: Apache-2.0
// Local users and pods against a standalone machine that root started. One machine, without guests.
import { names } from "@patchbay/api";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { linkLauncherImages } from "../../contract/containerd/launcher-images.ts";

const PATCHBAY = join(import.meta.dirname, "../../../packages/cli/bin/patchbay");
/** A descriptor above a gap, which Node.js does not close on exec. */
const INHERITED_FD = 20;
const UNPRIVILEGED_USER = 65_534;
const BRIDGE = `pba${String(process.pid % 100_000)}`;
const POD = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "thief" },
  spec: {
    restartPolicy: "Never",
    terminationGracePeriodSeconds: 0,
    securityContext: { runAsUser: 107, runAsGroup: 107 },
    containers: [
      {
        name: "compute",
        image: names.LAUNCHER_IMAGE,
        imagePullPolicy: "IfNotPresent",
        command: ["sleep", "600"],
      },
    ],
  },
};

const directory = mkdtempSync(join(tmpdir(), "patchbay-attack-"));
const dataDir = join(directory, "data");
const secret = join(directory, "secret");
let squatter: Server;

function kubectl(args: readonly string[], input?: string): string {
  const flags = ["--kubeconfig", join(dataDir, "kubeconfig"), "--cache-dir", join(directory, "c")];
  return execFileSync("kubectl", [...flags, ...args], { encoding: "utf8", input: input ?? "" });
}

beforeAll(async () => {
  writeFileSync(secret, "root's", { mode: 0o600 });
  const digest = createHash("sha256").update(dataDir).digest("hex");
  squatter = createServer().listen(`\0patchbay-${digest}`);
  await once(squatter, "listening");
  await linkLauncherImages(dataDir);
  const port = String(20_000 + (process.pid % 10_000));
  const flags = `--data-dir ${dataDir} up --api-port ${port} --bridge ${BRIDGE}`;
  const script = `exec ${String(INHERITED_FD)}<${secret}; exec ${PATCHBAY} ${flags}`;
  execFileSync("bash", ["-c", script], { stdio: "pipe" });
});
afterAll(() => {
  squatter.close();
  execFileSync(PATCHBAY, ["--data-dir", dataDir, "down", "--purge"], { stdio: "pipe" });
  rmSync(directory, { recursive: true });
});

/** Processes that have the file open, with their command lines. */
function holdersOf(path: string): readonly string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      const open = readdirSync(`/proc/${pid}/fd`).map((fd) =>
        readlinkSync(`/proc/${pid}/fd/${fd}`),
      );
      return open.includes(path) ? [readFileSync(`/proc/${pid}/cmdline`, "utf8")] : [];
    } catch {
      return [];
    }
  });
}

test("attack 26: files that the shell of `up` had open reach no pod and no component", async () => {
  kubectl(["create", "-f", "-"], JSON.stringify(POD));
  const phase = ["get", "pod", "thief", "-o", "jsonpath={.status.phase}"];
  await eventually(() => kubectl(phase) === "Running", { withinMs: 20_000 });
  expect(holdersOf(secret)).toEqual([]);
});

test("attack 67: a socket name taken before `up` does not prevent the start", () => {
  expect(squatter.listening).toBe(true);
  expect(kubectl(["get", "--raw", "/readyz"])).toBe("ok");
});

test("attack 67: only root can open the lock file", () => {
  const lock = join(dataDir, "run", "supervisor.lock");
  expect(spawnSync("flock", ["-n", lock, "true"]).status).toBe(1);
  const asUnprivilegedUser = spawnSync("flock", ["-n", lock, "true"], {
    uid: UNPRIVILEGED_USER,
    gid: UNPRIVILEGED_USER,
  });
  expect(asUnprivilegedUser.stderr.toString()).toContain("Permission denied");
});

test("attack 68: keys, objects, logs and states are readable by root only", () => {
  const isOpen = (path: string): boolean => (statSync(path).mode & 0o077) !== 0;
  const entries = readdirSync(dataDir).filter((name) => isOpen(join(dataDir, name)));
  expect(entries.sort()).toEqual(["containerd", "pods", "standalone.json"]);
});
