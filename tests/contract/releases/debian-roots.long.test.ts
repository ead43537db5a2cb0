// SPDX-License-Identifier: Apache-2.0
// The README's commands in fresh roots of Debian 12 and Debian 13, with Debian's own Node.js and npm.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { eventually, needProgram } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

needProgram("/usr/bin/mmdebstrap", "mmdebstrap");

const REPOSITORY = join(import.meta.dirname, "../../..");
const DEBIAN_ROOT = join(REPOSITORY, "hack/debian-root");
/** Time to download, compile and build everything in a root. */
const WITHIN_MS = 1_800_000;
const ALL_PASSED = / Tests +\d+ passed \(\d+\)/;
const OWN_NETWORK = "--own-network";
/** End of the output in the message of a failure. */
const SHOWN_CHARACTERS = 6_000;

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** The changes to a root, which {@link remove} deletes. */
class Root {
  readonly #release: string;
  readonly directory: string;

  constructor(release: string, purpose: string) {
    this.#release = release;
    this.directory = join(REPOSITORY, ".cache", `root-${release}-${purpose}`);
    this.remove();
  }

  /** Clones the repository to /root/patchbay, which is the working directory of commands. */
  clone(): void {
    const home = join(this.directory, "root");
    mkdirSync(home, { recursive: true });
    execFileSync("git", ["clone", "--quiet", REPOSITORY, join(home, "patchbay")]);
  }

  try(command: string, ...flags: readonly string[]): Ended {
    const shell = ["sh", "-euc", `exec 2>&1; cd /root/patchbay; ${command}`];
    const argv = ["run", ...flags, this.#release, this.directory, ...shell];
    const limits = { timeout: WITHIN_MS, maxBuffer: 2 ** 26 };
    const { status, stdout, stderr } = spawnSync(DEBIAN_ROOT, argv, {
      ...limits,
      encoding: "utf8",
    });
    return { code: status, output: stdout + stderr };
  }

  run(command: string, ...flags: readonly string[]): string {
    const { code, output } = this.try(command, ...flags);
    if (code === 0) return output;
    const end = output.slice(-SHOWN_CHARACTERS);
    throw new Error(`${command}: exit code ${String(code)} in the root:\n${end}`);
  }

  runTests(project: string, ...files: readonly string[]): string {
    const path = 'PATH="$PWD/node_modules/.bin:$PATH"';
    return this.run(`${path} vitest run --project ${project} ${files.join(" ")}`, OWN_NETWORK);
  }

  remove(): void {
    execFileSync(DEBIAN_ROOT, ["remove", this.directory]);
  }
}

describe.each(["12", "13"])("Debian %s", (release) => {
  let root: Root;

  beforeAll(() => {
    execFileSync(DEBIAN_ROOT, ["make", release], { stdio: "inherit" });
    root = new Root(release, "whole");
    root.clone();
  }, WITHIN_MS);

  afterAll(() => {
    root.remove();
  }, WITHIN_MS);

  test("hack/install installs what the demo needs", { timeout: WITHIN_MS }, () => {
    root.run("hack/install && hack/guest/make-image .cache/guest");
    const installed = root.run("dpkg-query -W -f '${Package}\\n'").split("\n");
    expect(installed).toContain("qemu-system-x86");
    const ofTests = installed.filter((name) => /chromium|dpdk|openvswitch|librte/.test(name));
    // A JavaScript module that Debian's npm depends on.
    expect(ofTests.filter((name) => name !== "node-electron-to-chromium")).toEqual([]);
    const daemons = root.run("find /etc/systemd/system -path '*.wants/*' -printf '%f\\n'");
    expect(daemons.split("\n").filter((name) => /virt|containerd/.test(name))).toEqual([]);
  });

  test("hack/demo plugs and unplugs NICs", { timeout: WITHIN_MS }, () => {
    const shown = root.run("hack/demo", OWN_NETWORK);
    expect(shown).toMatch(/two more NICs at once +\d/);
    expect(shown).toMatch(/red is unplugged while blue keeps pinging +\d/);
    expect(shown).toContain("no VM, VMI or pod is left");
  });

  test("the tests of plug, swap and unplug pass", { timeout: WITHIN_MS }, () => {
    const names = ["plug/plug", "plug/swap", "unplug/unplug"];
    const output = root.runTests("e2e", ...names.map((name) => `tests/e2e/${name}.test.ts`));
    expect(output).toMatch(ALL_PASSED);
  });

  test("the images of clusters and hooks are made", { timeout: WITHIN_MS }, () => {
    root.run("hack/images/make-images patchbay sidecar-shim virt-launcher");
    const images = readdirSync(join(root.directory, "root/patchbay/.cache/images"));
    expect(images).toEqual(
      expect.arrayContaining(["patchbay.tar", "sidecar-shim.tar", "virt-launcher.tar"]),
    );
  });

  test(
    "hack/install --tests knows all packages, and nftables, iproute2, dnsmasq and kubectl behave as expected",
    { timeout: WITHIN_MS },
    () => {
      expect(root.run("hack/install --tests")).not.toContain("not possible");
      const output = root.runTests(
        "contract",
        ...["masquerade", "podnet", "address-servers", "guest-addresses"].map(
          (name) => `tests/contract/podnet/${name}.test.ts`,
        ),
        "tests/contract/service-net/forward.test.ts",
        "tests/contract/apiserver/auth/kubectl.test.ts",
      );
      expect(output).toMatch(ALL_PASSED);
    },
  );
});

describe("another distribution", () => {
  let root: Root;

  beforeAll(() => {
    root = new Root("13", "other");
    root.clone();
    root.run(
      `rm /etc/os-release; printf 'ID=fedora\\nPRETTY_NAME="Fedora 43"\\n' >/etc/os-release`,
    );
  }, WITHIN_MS);

  afterAll(() => {
    root.remove();
  });

  /** Files with times and sizes, of the root and of the repository. */
  function listFiles(): string {
    const places = ["upper", "root", "tmp"].map((name) => join(root.directory, name));
    return execFileSync("find", [...places, "-printf", "%p %s %T@ %m\n"], {
      encoding: "utf8",
      maxBuffer: 2 ** 26,
    });
  }

  test.each(["hack/install", "hack/demo", "hack/test lint"])(
    "%s names the packages and changes nothing",
    (command) => {
      const before = listFiles();
      const { code, output } = root.try(command);
      expect(code).not.toBe(0);
      expect(output).toContain("this is Fedora 43");
      expect(output).toContain("Debian 12 or Debian 13");
      expect(output.split(/\s+/)).toContain("libvirt-daemon-driver-qemu");
      expect(listFiles()).toBe(before);
    },
  );
});

describe("a killed command", () => {
  const DATA_DIR = "/tmp/trial/data";
  const MARK = "86399.25";

  function isRunning(): boolean {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .some((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, "utf8") === `sleep\0${MARK}\0`;
        } catch {
          return false;
        }
      });
  }

  test("leaves no process, mount, loop device, control group or file", async () => {
    const root = new Root("13", "killed");
    const hash = createHash("sha256").update(DATA_DIR).digest("hex").slice(0, 8);
    const hierarchy = existsSync("/sys/fs/cgroup/pids") ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup";
    const group = join(hierarchy, `patchbay-${hash}`);
    const command = `mkdir -p ${DATA_DIR} ${group}/pod; sleep ${MARK}`;
    const argv = ["run", "13", root.directory, "sh", "-euc", command];
    const child = spawn(DEBIAN_ROOT, argv, { stdio: "ignore" });
    let device = "";
    try {
      await eventually(isRunning, { withinMs: 60_000 });
      const disk = join(root.directory, DATA_DIR, "disk");
      writeFileSync(disk, "");
      truncateSync(disk, 2 ** 20);
      device = execFileSync("losetup", ["--find", "--show", disk], { encoding: "utf8" }).trim();
      expect(existsSync(join(group, "pod"))).toBe(true);
    } finally {
      child.kill("SIGKILL");
      await eventually(() => !isRunning(), { withinMs: 60_000 });
      root.remove();
    }
    expect(
      execFileSync("losetup", ["--list", "--output", "NAME"], { encoding: "utf8" }).split("\n"),
    ).not.toContain(device);
    expect(existsSync(group)).toBe(false);
    expect(existsSync(root.directory)).toBe(false);
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(root.directory);
  });
});
