// SPDX-License-Identifier: Apache-2.0
// Backups of a machine without services, with a mounted claim. Needs root and loop devices.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { restoreStore } from "@patchbay/apiserver";
import { createClaimDisk, createProcessRunner } from "@patchbay/os";
import { backUp, restore } from "@patchbay/supervisor";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const VOLUME = "pvc-11111111-2222-3333-4444-555555555555";
const CRON_PATH = "/usr/bin:/bin";
const TAR = "/usr/bin/tar";

const disk = createClaimDisk({ runner: createProcessRunner() });
const lines: string[] = [];
let work: string;
let dataDir: string;
let programs: string;
/** Directory of the archive, in which all users may write. */
let shared: string;
let image: string;
let mount: string;

function objects(): string {
  const address = { bucket: "/persistentvolumes", namespace: "", name: VOLUME };
  const metadata = { name: VOLUME, uid: "u" };
  const object = { apiVersion: "v1", kind: "PersistentVolume", metadata };
  const all = [
    { format: "patchbay-backup/1", revision: 1 },
    { address, revision: 1, object },
    { objects: 1 },
  ];
  return all.map((line) => `${JSON.stringify(line)}\n`).join("");
}

beforeEach(async () => {
  work = mkdtempSync(join(tmpdir(), "backup-"));
  lines.length = 0;
  [dataDir, programs, shared] = ["data", "programs", "shared"].map((name) => join(work, name)) as [
    string,
    string,
    string,
  ];
  const claim = join(dataDir, "claims", VOLUME);
  [image, mount] = [join(claim, "volume.img"), join(claim, "mount")];
  for (const path of [programs, shared, claim, join(dataDir, "pki"), join(dataDir, "apiserver")]) {
    mkdirSync(path, { recursive: true });
  }
  chmodSync(shared, 0o1777);
  writeFileSync(join(dataDir, "standalone.json"), '{"kind":"PatchbayStandalone","format":1}');
  restoreStore(join(dataDir, "apiserver", "store.sqlite"), { path: "b", text: objects() });
  await disk.make(image, { kind: "files", sizeBytes: 16 * 2 ** 20 });
  await disk.mount(image, { directory: mount });
  writeFileSync(join(mount, "data"), "kept");
  writeFileSync(join(programs, "cp"), "#!/bin/sh\nexit 1\n", { mode: 0o755 }); // as if no file could be cloned
  vi.stubEnv("PATH", `${programs}:${CRON_PATH}`);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  thaw();
  await disk.release(image, mount);
  rmSync(work, { recursive: true });
});

/** Thaws the claim, and returns whether it was frozen. */
function thaw(): boolean {
  return spawnSync("/usr/sbin/fsfreeze", ["--unfreeze", mount], { stdio: "ignore" }).status === 0;
}

/** Replaces tar when it copies the claim. */
function onCopy(script: string): void {
  const text = `#!/bin/sh\ncase $* in *--append*volume.img*) ${script} ;; esac\nexec ${TAR} "$@"\n`;
  writeFileSync(join(programs, "tar"), text, { mode: 0o755 });
}

function backUpOnce() {
  const print = (line: string): void => {
    lines.push(line);
  };
  return backUp({ dataDir, file: join(shared, "machine.tar"), print });
}

test("copies a frozen claim with the PATH of cron, and thaws it", async () => {
  onCopy(`/usr/sbin/fsfreeze --freeze ${mount} 2>/dev/null || touch ${work}/frozen`);
  expect(await backUpOnce()).toMatchObject({ objects: 1, volumes: [VOLUME], images: [] });
  expect(existsSync(join(work, "frozen"))).toBe(true);
  expect(thaw()).toBe(false);
  expect(readdirSync(shared)).toEqual(["machine.tar"]);
});

test("thaws a claim whose copying shell is killed, and the next backup succeeds", async () => {
  onCopy("kill -KILL $(ps -o ppid= $PPID)");
  await expect(backUpOnce()).rejects.toMatchObject({ code: "STANDALONE_BACKUP_FAILED" });
  expect(thaw()).toBe(false);
  expect(readdirSync(shared)).toEqual([]);
  rmSync(join(programs, "tar"));
  expect(await backUpOnce()).toMatchObject({ volumes: [VOLUME] });
});

test("copies a claim that a killed backup left frozen", async () => {
  execFileSync("/usr/sbin/fsfreeze", ["--freeze", mount]);
  expect(await backUpOnce()).toMatchObject({ volumes: [VOLUME] });
  expect(thaw()).toBe(false);
});

test("a second backup of the machine is refused while one runs", async () => {
  onCopy(`touch ${work}/copying; while [ ! -e ${work}/continue ]; do sleep 0.05; done`);
  const first = backUpOnce();
  await expect.poll(() => existsSync(join(work, "copying")), { timeout: 30_000 }).toBe(true);
  await expect(backUpOnce()).rejects.toMatchObject({ code: "STANDALONE_BACKUP_FAILED" });
  writeFileSync(join(work, "continue"), "");
  expect(await first).toMatchObject({ volumes: [VOLUME] });
});

test("only root can reach an incomplete archive in a directory of all users", async () => {
  const planted = [".machine.tar.work", ".machine.tar.work-planted", "machine.tar.partial"];
  for (const name of planted) mkdirSync(join(shared, name));
  mkdirSync(join(shared, ".machine.tar.work-killed"));
  onCopy(`stat -c '%a %u' ${shared}/.machine.tar.work-?????? >${work}/modes`);
  await backUpOnce();
  expect(readFileSync(join(work, "modes"), "utf8")).toBe("700 0\n");
  // A killed backup's directory is removed.
  expect(readdirSync(shared).toSorted()).toEqual([...planted, "machine.tar"].toSorted());
});

test("reports that the names of the images are unknown, also after a restore", async () => {
  writeFileSync(join(dataDir, "containerd"), "not a directory");
  expect((await backUpOnce()).images).toBeUndefined();
  expect(lines.join("\n")).toContain("names of the machine's images are not in the backup: ");
  const restored = join(work, "restored");
  const { images, volumes } = await restore({
    dataDir: restored,
    file: join(shared, "machine.tar"),
  });
  expect([images, volumes]).toEqual([undefined, [VOLUME]]);
  expect(existsSync(join(restored, "claims", VOLUME, "volume.img"))).toBe(true);
});
