// SPDX-License-Identifier: Apache-2.0
// A standalone machine in use: upgrade, backup and full disk with a running guest, and the restore on another machine.
import { execFileSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { names } from "@patchbay/api";
import {
  diskVmManifest,
  endTrial,
  eventually,
  findFreePort,
  KERNEL_ARGS,
  openTrial,
  type Machine,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const GUEST = join(ROOT, ".cache/guest");
const SUBNETS = ["--pod-subnet", "10.88.246.0/24", "--service-subnet", "10.107.0.0/16"];
const BRIDGE = "pbop0";
const VM = "longlived";
const DISK_BYTES = 6 * 2 ** 30;
const WITHIN = { withinMs: 60_000 };
const LONG_MS = 600_000;
const MAPS = "/api/v1/namespaces/default/configmaps";

let machine: Machine;
let restored: Machine | undefined;
let apiPort: number;

/** The file system of the machine's data directory, which is small enough to be filled. */
function mountDisk(dataDir: string): void {
  const image = join(dirname(dataDir), "disk.img");
  writeFileSync(image, "");
  truncateSync(image, DISK_BYTES);
  execFileSync("mkfs.ext4", ["-q", "-m", "0", image]);
  mkdirSync(dataDir);
  execFileSync("mount", ["-o", "loop", image, dataDir]);
}

/** Uses all free space of a directory's file system. */
class Hog {
  readonly #path: string;
  readonly #file: number;

  constructor(directory: string) {
    this.#path = join(directory, "hog");
    this.#file = openSync(this.#path, "a");
    const { bavail, bsize } = statfsSync(directory);
    execFileSync("fallocate", ["--length", String((bavail - 1024) * bsize), this.#path]);
    this.fill();
  }

  /** Also uses what was freed since. */
  fill(): void {
    try {
      for (;;) writeSync(this.#file, Buffer.alloc(4096));
    } catch {
      // The disk is full.
    }
  }

  remove(): void {
    closeSync(this.#file);
    rmSync(this.#path);
  }
}

function claim(name: string): unknown {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "64Mi" } } },
  };
}

/** A guest whose disks vda and vdb are claims. */
function guestManifest(): unknown {
  const kernel = { kernelPath: "/vmlinuz-full", initrdPath: "/initrd-full" };
  const firmware = {
    kernelBoot: { kernelArgs: KERNEL_ARGS, container: { image: "guest", ...kernel } },
  };
  const disks = ["written", "empty"].map((name) => ({
    name,
    volume: { persistentVolumeClaim: { claimName: name } },
  }));
  return diskVmManifest({ name: VM, disks, firmware });
}

async function readDisk(of: Machine, disk: string): Promise<string> {
  const { lines } = await of.console(VM).run(`read ${disk}`);
  return lines.map((line) => line.replace(/^.*?read /, "").trimEnd()).join("\n");
}

function findPauseReason(): string | undefined {
  const conditions = machine.findVmi(VM)?.status?.conditions ?? [];
  return conditions.find(({ type }) => type === "Paused")?.reason;
}

/** Runs a shell script in a pod with the claim at /v. */
function startPod(of: Machine, name: string, script: string): void {
  of.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
      volumes: [{ name: "v", persistentVolumeClaim: { claimName: "kept" } }],
      containers: [
        {
          name: "main",
          image: names.LAUNCHER_IMAGE,
          command: ["sh", "-c", script],
          volumeMounts: [{ name: "v", mountPath: "/v" }],
        },
      ],
    },
  });
}

function archive(): string {
  return join(dirname(machine.dataDir), "backup.tar");
}

function freezeClaims({ dataDir }: Machine): void {
  const claims = join(dataDir, "claims");
  const volumes = readdirSync(claims);
  expect(volumes).toHaveLength(3);
  for (const volume of volumes)
    execFileSync("/usr/sbin/fsfreeze", ["--freeze", join(claims, volume, "mount")]);
}

async function answers(): Promise<void> {
  expect((await machine.console(VM).run("report")).code).toBe(0);
}

function qemus(): readonly string[] {
  return execFileSync("pgrep", ["-f", `guest=default_${VM}`], { encoding: "utf8" })
    .trim()
    .split("\n");
}

beforeAll(async () => {
  machine = await openTrial(ROOT, "ops");
  apiPort = await findFreePort();
  mountDisk(machine.dataDir);
  machine.patchbay("image", "add", "guest", GUEST);
  machine.patchbay("up", "--api-port", String(apiPort), "--bridge", BRIDGE, ...SUBNETS);
  machine.apply(claim("kept"), claim("written"), claim("empty"), guestManifest());
  startPod(
    machine,
    "writer",
    "i=0; while :; do i=$((i+1)); echo $i >>/v/numbers; sync; sleep 0.1; done",
  );
  await eventually(() => machine.findPodPhase("writer") === "Running", WITHIN);
  await machine.booted(VM);
}, LONG_MS);

afterAll(() => {
  if (restored !== undefined) endTrial(restored);
  const { dataDir } = machine;
  machine.try(["patchbay", "--data-dir", dataDir, "down", "--purge"]);
  machine.close();
  execFileSync("umount", [dataDir]);
  rmSync(dirname(dataDir), { recursive: true });
}, LONG_MS);

test(
  "upgrade restarts the services of another build, and guests keep running",
  async () => {
    const run = join(machine.dataDir, "run");
    for (const name of readdirSync(run).filter((file) => file.endsWith(".json"))) {
      const record = JSON.parse(readFileSync(join(run, name), "utf8")) as object;
      writeFileSync(join(run, name), JSON.stringify({ ...record, build: "earlier" }));
    }
    const before = qemus();
    const pid = machine.pidOf("virt-handler");
    expect(machine.try(["patchbay", "--data-dir", machine.dataDir, "up"]).stderr).toContain(
      "apply it: patchbay upgrade",
    );
    const done = machine.patchbay("upgrade");
    expect(done).toMatch(
      /restarted: apiserver, containerd, net-agent, .*virt-handler; (\d+) of \1 pods/,
    );
    expect(machine.pidOf("virt-handler")).not.toBe(pid);
    expect(qemus()).toEqual(before);
    await answers();
    expect(machine.patchbay("upgrade")).toContain("restarted: no service");
  },
  LONG_MS,
);

test(
  "a backup of the running machine contains its claims, whose writes continue",
  async () => {
    expect((await machine.console(VM).run("write vda kept")).code).toBe(0);
    expect(machine.patchbay("backup", archive())).toMatch(
      / objects, 3 volumes; images are not in it: .*guest/,
    );
    await answers();
    const count = (): number => machine.kubectl("exec", "writer", "--", "cat", "/v/numbers").length;
    const before = count();
    await eventually(() => count() > before, WITHIN);
    expect(machine.kubectl("get", "--raw", "/metrics")).toMatch(
      /^patchbay_machine_backup_timestamp_seconds \d+$/m,
    );
  },
  LONG_MS,
);

test(
  "a full disk rejects new objects and pods, ends nothing, and everything continues when space is free",
  async () => {
    const before = qemus();
    const hog = new Hog(machine.dataDir);
    const data = { value: "x".repeat(500_000) };
    let refusal = "";
    for (let count = 0; refusal === ""; count += 1) {
      const map = {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: `m${String(count)}` },
        data,
      };
      const argv = ["kubectl", "create", "--raw", MAPS, "-f", "-"] as const;
      refusal = machine.try(argv, JSON.stringify(map)).stderr;
    }
    expect(refusal).toContain("the disk of the API server's store is full");
    const doctor = machine.try(["patchbay", "--data-dir", machine.dataDir, "doctor"]);
    expect(doctor.stdout).toMatch(/disk of .*is full: /);
    await answers();
    const write = machine.console(VM).run("write vdb late", { timeoutMs: LONG_MS });
    await eventually(() => {
      hog.fill();
      return findPauseReason() === "PausedIOError";
    }, WITHIN);
    hog.remove();
    expect((await write).code).toBe(0);
    expect(await readDisk(machine, "vdb")).toBe("late");
    const late = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "late" }, data };
    await eventually(
      () =>
        machine.try(["kubectl", "create", "--raw", MAPS, "-f", "-"], JSON.stringify(late)).code ===
        0,
      WITHIN,
    );
    expect(qemus()).toEqual(before);
    await answers();
    expect(findPauseReason()).toBeUndefined();
    expect(machine.findPodPhase("writer")).toBe("Running");
  },
  LONG_MS,
);

test(
  "the backup starts as another machine, after the first one was deleted",
  async () => {
    restored = await openTrial(ROOT, "rst");
    const file = archive();
    const { dataDir } = restored;
    expect(restored.patchbay("restore", file)).toContain("patchbay image add");
    const again = machine.try(["patchbay", "--data-dir", dataDir, "restore", file]);
    expect(again.stderr).toContain("it has objects already");
    const early = machine.try(["patchbay", "--data-dir", dataDir, "up"]);
    expect(early.stderr).toContain(
      `--bridge ${BRIDGE}: the machine in ${machine.dataDir} has ${BRIDGE}`,
    );
    freezeClaims(machine); // As a backup does that is killed.
    machine.patchbay("down", "--purge");
    expect(existsSync(file)).toBe(true);

    restored.patchbay("image", "add", "guest", GUEST);
    restored.patchbay("up");
    await restored.booted(VM);
    expect(await readDisk(restored, "vda")).toBe("kept");
    restored.deleteIfPresent("pod", "writer");
    startPod(restored, "reader", "cat /v/numbers");
    await eventually(() => restored?.findPodPhase("reader") === "Succeeded", WITHIN);
    const numbers = restored.kubectl("logs", "reader").trim().split("\n").map(Number);
    expect(numbers.length).toBeGreaterThan(10);
    // The pod may have begun again on the other machine.
    const gaps = numbers.filter(
      (each, index) => each !== 1 && each !== (numbers[index - 1] ?? 0) + 1,
    );
    expect(gaps).toEqual([]);
  },
  LONG_MS,
);
