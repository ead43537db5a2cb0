// SPDX-License-Identifier: Apache-2.0
// The systemd unit of a machine, with a small systemctl in a mount namespace; and a service's log on a full disk.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const PATCHBAY = join(ROOT, "node_modules/.bin/patchbay");
const UNITS = "/etc/systemd/system";
const LOGGER = join(ROOT, "packages/common/telemetry/src/logger.ts");

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-unit-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true });
});

/** Starts and stops the unit's main process, as systemd does. */
function systemctl(dataDir: string): string {
  return `#!/bin/sh
echo "systemctl $*" >>${directory}/calls
case $1 in
  enable) mkdir -p ${UNITS}/multi-user.target.wants
    ln -sf ../patchbay.service ${UNITS}/multi-user.target.wants/ ;;
  disable) rm ${UNITS}/multi-user.target.wants/patchbay.service ;;
  start) command=$(sed -n 's/^ExecStart=//p' ${UNITS}/patchbay.service)
    setsid sh -c "exec $command" </dev/null >/dev/null 2>>${directory}/journal & ;;
  stop) kill "$(sed 's/.*"pid":\\([0-9]*\\).*/\\1/' ${dataDir}/run/supervisor.json)" ;;
esac
`;
}

/** Runs the script where systemd seems to run; the caller's shell sees no change. */
function runWithSystemd(dataDir: string, script: string): string {
  const bin = join(directory, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "systemctl"), systemctl(dataDir));
  chmodSync(join(bin, "systemctl"), 0o755);
  const prepare = `exec 2>&1; mkdir -p ${UNITS} /run/systemd
    mount -t tmpfs tmpfs ${UNITS}; mount -t tmpfs tmpfs /run/systemd; mkdir /run/systemd/system`;
  const argv = ["--mount", "--propagation", "slave", "sh", "-euc", `${prepare}\n${script}`];
  const env = { ...process.env, PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  const { status, stdout } = spawnSync("unshare", argv, {
    encoding: "utf8",
    env,
    timeout: 600_000,
  });
  if (status === 0) return stdout;
  throw new Error(`exit code ${String(status)}:\n${stdout}`);
}

test(
  "a machine starts, stops and is upgraded by its unit, until the unit is removed",
  { timeout: 600_000 },
  async () => {
    const dataDir = join(directory, "data");
    const machine = `${PATCHBAY} --data-dir ${dataDir}`;
    const flags = `--api-port ${String(await findFreePort())} --bridge pbun0 --pod-subnet 10.88.247.0/24 --service-subnet 10.106.0.0/16`;
    const output = runWithSystemd(
      dataDir,
      `trap '${machine} down --purge' EXIT
    ${machine} up --install-service ${flags}
    cp ${UNITS}/patchbay.service ${directory}/
    echo second; ! ${PATCHBAY} --data-dir ${directory}/other up --install-service
    test ! -e ${directory}/other
    echo down; ${machine} down
    echo again; ${machine} up
    sed -i 's/"build":"[^"]*"/"build":"earlier"/' ${dataDir}/run/*.json
    echo upgrade; ${machine} upgrade
    echo remove; ${machine} down --uninstall-service
    test ! -e ${UNITS}/patchbay.service
    trap - EXIT; ${machine} down --purge`,
    );
    const [first, second, down, again, upgrade, remove] = output.split(
      /^(?:second|down|again|upgrade|remove)$/m,
    );
    expect(first).toContain("the machine starts at boot");
    expect(second).toContain(`patchbay.service starts the machine in ${dataDir}`);
    expect(down).toContain("it starts again at the next boot");
    expect(again).toContain("systemd starts patchbay.service");
    expect(upgrade).toMatch(/restarted: apiserver, .*virt-handler; 0 of 0 pods/);
    expect(remove).toContain("patchbay.service is removed");
    const calls = readFileSync(join(directory, "calls"), "utf8").trim().split("\n");
    expect(calls).toEqual([
      "systemctl daemon-reload",
      "systemctl enable patchbay.service",
      "systemctl start patchbay.service",
      "systemctl stop --no-block patchbay.service",
      "systemctl start patchbay.service",
      "systemctl start patchbay.service",
      "systemctl stop --no-block patchbay.service",
      "systemctl disable patchbay.service",
      "systemctl daemon-reload",
    ]);
    const unit = join(directory, "patchbay.service");
    const verify = `! command -v systemd-analyze || systemd-analyze verify ${unit}`;
    expect(spawnSync("sh", ["-c", verify], { encoding: "utf8" }).status).toBe(0);
  },
);

test("a service continues to log when space is free again", () => {
  const disk = join(directory, "disk");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1M", "tmpfs", disk]);
  try {
    const script = `const { createLogger } = await import(${JSON.stringify(LOGGER)});
      const { appendFileSync, rmSync } = await import("node:fs");
      const log = createLogger({ component: "it", level: "info" });
      log.info("before");
      try { for (;;) appendFileSync("hog", Buffer.alloc(4096)); } catch {}
      for (let count = 0; count < 100; count += 1) log.info("full", { text: "x".repeat(1000) });
      rmSync("hog");
      log.info("after");`;
    const node = `${process.execPath} --conditions=@patchbay/source --input-type=module -e '${script}'`;
    execFileSync("sh", ["-c", `${node} 2>log`], { cwd: disk });
    const text = readFileSync(join(disk, "log"), "utf8");
    expect(text).toContain('"before"');
    expect(text).toContain('"after"');
  } finally {
    execFileSync("umount", [disk]);
  }
});
