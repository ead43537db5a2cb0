// SPDX-License-Identifier: Apache-2.0
// Content of the images with Debian packages.
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createProcessRunner } from "@patchbay/os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startHarness } from "../apiserver/harness.ts";
import { CACHE, ROOT, makeImages, readArchive, run, unpackRoot } from "./archive.ts";

const PACKAGE = /^packages\/[\w-]+\/[\w-]+\//;
const PATH = "PATH=/usr/sbin:/usr/bin";
/** For virsh in a launcher. */
const LIBVIRT = "LIBVIRT_DEFAULT_URI=qemu:///session?socket=/run/launcher/libvirt/libvirt-sock";

interface Expected {
  readonly config: Readonly<Record<string, unknown>>;
  /** Programs that must be in PATH. */
  readonly programs: readonly string[];
  readonly files: readonly string[];
}

const EXPECTED: Readonly<Record<string, Expected>> = {
  "virt-launcher": {
    config: { User: "107:107", Entrypoint: ["/usr/bin/virt-launcher"], Env: [PATH, LIBVIRT] },
    programs: [
      "virt-launcher",
      "prepare-disks",
      "copy-files",
      "libvirtd",
      "virsh",
      "qemu-img",
      "xorriso",
      "xorrisofs",
      "swtpm",
      "swtpm_setup",
      "swtpm_localca",
      "certtool",
      "mkfs.ext4",
      "mkfs.vfat",
      "sh",
      "timeout",
      "wget",
      // For users and tests with `kubectl exec`.
      "bash",
      "grep",
      "ip",
      process.arch === "arm64" ? "qemu-system-aarch64" : "qemu-system-x86_64",
    ],
    files: [
      "/etc/ssl/certs/ca-certificates.crt",
      ...(process.arch === "arm64" ? [] : ["/usr/share/seabios/bios-256k.bin"]),
    ],
  },
  patchbay: {
    config: { User: "65532:65532", Env: [PATH] },
    programs: [
      "virt-api",
      "virt-controller",
      "virt-handler",
      "net-agent",
      "patchbay",
      "ip",
      "bridge",
      "nsenter",
      "setpriv",
      "iptables",
      "ip6tables-restore",
      "nft",
      "sh",
    ],
    files: ["/usr/lib/patchbay/packages/adapters/libvirt/build/libvirt.node"],
  },
};

/** `NAME=VERSION`, sorted as list-packages does. */
function installedIn(status: string): readonly string[] {
  const found = status.matchAll(/^Package: (.*)\n(?:.+\n)*?Version: (.*)$/gm);
  return [...found].map(([, name = "", version = ""]) => `${name}=${version}`).toSorted();
}

/** Whether a path below the root is a program or library. */
function isElf(root: string): (path: string) => boolean {
  return (path) => {
    const head = Buffer.alloc(4);
    const file = openSync(join(root, path), "r");
    readSync(file, head);
    closeSync(file);
    return head.equals(Buffer.from("\x7fELF", "latin1"));
  };
}

/** Each image's unpacked files, once: the services' image takes 6 to 11 s of processor time. */
const roots = new Map<string, string>();

function rootOf(name: string): string {
  const root = roots.get(name) ?? unpackRoot(join(CACHE, `${name}.tar`));
  roots.set(name, root);
  return root;
}

beforeAll(() => {
  makeImages(CACHE, ...Object.keys(EXPECTED));
}, 600_000);

afterAll(() => {
  for (const root of roots.values()) rmSync(dirname(root), { recursive: true });
});

describe.each(Object.entries(EXPECTED))("image %s", (name, expected) => {
  let root: string;
  const archive = join(CACHE, `${name}.tar`);
  const inRoot = (program: string, ...args: readonly string[]): string =>
    run(["chroot", "--userspec=65534:65534", root, program, ...args], {
      PATH: "/usr/sbin:/usr/bin",
    });

  beforeAll(() => {
    root = rootOf(name);
  });

  test("runs as an unprivileged user, who may start all required programs", () => {
    const { config } = readArchive(archive).config;
    expect(config).toMatchObject(expected.config);
    expect(readFileSync(join(root, "etc/passwd"), "utf8")).toContain(`:${config.User}:`);
    const found = expected.programs.map((program) => inRoot("sh", "-c", `command -v ${program}`));
    expect(found).toHaveLength(expected.programs.length);
    for (const file of expected.files) inRoot("test", "-r", file);
  });

  test("has the listed packages, in dpkg's list and in its bill of materials", () => {
    // The output of list-packages when the image was built, cached while its inputs are unchanged.
    const listed = readFileSync(join(CACHE, `${name}.packages`), "utf8")
      .trim()
      .split("\n");
    const status = readFileSync(join(root, "var/lib/dpkg/status"), "utf8");
    expect(installedIn(status)).toEqual(listed.toSorted());
    const bill = JSON.parse(readFileSync(join(CACHE, `${name}.cdx.json`), "utf8")) as {
      readonly components: readonly { purl: string; name: string; version: string }[];
    };
    const debian = bill.components.filter(({ purl }) => purl.startsWith("pkg:deb/"));
    const billed = debian.map((component) => `${component.name}=${component.version}`);
    expect(billed.toSorted()).toEqual(listed.toSorted());
  });

  test("has every library that its programs and libraries need", () => {
    const find = ["find", root, "-xdev", "-type", "f", "(", "-perm", "-100", "-o"];
    const names = ["-name", "*.so*", "-o", "-name", "*.node", ")", "-printf", "/%P\\n"];
    const files = run([...find, ...names])
      .trim()
      .split("\n")
      .filter(isElf(root));
    expect(files.length).toBeGreaterThan(100);
    const loader = readdirSync(join(root, "lib64")).find((file) => file.startsWith("ld-linux"));
    const script = `for file do echo "$file:"; /lib64/${loader ?? ""} --list "$file"; done 2>&1; true`;
    const reported = inRoot("sh", "-c", script, "sh", ...files);
    expect(reported.split("\n").filter((line) => line.includes("not found"))).toEqual([]);
    expect(reported).toContain("libc.so.6 => /lib");
  });

  test("has no setuid program, no world-writable file, no trace of the build machine", () => {
    const find = (...args: readonly string[]) => run(["find", root, "-xdev", ...args]);
    expect(find("-type", "f", "-perm", "/6000")).toBe("");
    expect(find("-type", "f", "-perm", "/0002")).toBe("");
    expect(find("-newermt", "2026-01-02")).toBe("");
    for (const path of ["etc/hostname", "etc/resolv.conf", "etc/apt", "var/lib/apt", "run/*"]) {
      expect(find("-path", join(root, path))).toBe("");
    }
  });

  test("has no manuals and languages, but each package's copyright", () => {
    const docs = run([
      "find",
      join(root, "usr/share/doc"),
      "-type",
      "f",
      "!",
      "-name",
      "copyright",
    ]);
    expect(docs).toBe("");
    for (const path of ["man", "locale", "info"]) {
      expect(run(["find", join(root, "usr/share"), "-name", path, "-maxdepth", "1"])).toBe("");
    }
    const status = readFileSync(join(root, "var/lib/dpkg/status"), "utf8");
    const packages = [...status.matchAll(/^Package: (.*)$/gm)].map(([, name = ""]) => name);
    const script = 'for name do test -s "/usr/share/doc/$name/copyright" || echo "$name"; done';
    expect(inRoot("sh", "-c", script, "sh", ...packages)).toBe("");
  });
});

test("the services' packages include all files read beside their code", () => {
  const list = run(["find", join(rootOf("patchbay"), "usr/lib/patchbay"), "-printf", "%P\\n"]);
  const inImage = new Set(list.split("\n"));
  const own = [...new Set([...inImage].map((path) => PACKAGE.exec(path)?.[0]))].filter(
    (folder) => folder !== undefined,
  );
  const tracked = run(["git", "-C", ROOT, "ls-files", "packages"]).trim().split("\n");
  const wanted = tracked.filter(
    (path) =>
      own.some((folder) => path.startsWith(folder)) &&
      !/^(src|native|README\.md|tsconfig.*)/.test(path.replace(PACKAGE, "")),
  );
  expect(wanted.length).toBeGreaterThan(20);
  expect(wanted.filter((path) => !inImage.has(path))).toEqual([]);
});

test("the services' image runs the commands of the Helm chart's Jobs", async () => {
  const root = rootOf("patchbay");
  const api = await startHarness();
  const kubeconfig = join(root, "kubeconfig");
  try {
    writeFileSync(kubeconfig, api.kubeconfig);
    for (const [command, output] of [
      [["doctor", "--before-install"], "admission of the objects: the API server accepts them"],
      [["uninstall", "--prepare"], "there are no virtual machines"],
    ] as const) {
      const program = ["patchbay", ...command, "--kubeconfig", "/kubeconfig"];
      const argv = ["env", "-i", PATH, "chroot", "--userspec=65532:65532", root] as const;
      const { exitCode, stdout, stderr } = await createProcessRunner().run({
        argv: [...argv, ...program],
        timeoutMs: 60_000,
      });
      expect({ exitCode, output: `${stdout}${stderr}` }).toEqual({
        exitCode: 0,
        output: expect.stringContaining(output) as string,
      });
    }
  } finally {
    rmSync(kubeconfig, { force: true });
    await api.close();
  }
});
