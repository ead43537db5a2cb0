// SPDX-License-Identifier: Apache-2.0
// The commands of docs/install.md push a release's archives to a real registry, which then has the digests of the manifests.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VERSION } from "@patchbay/base/version";
import { eventually, findFreePort, needProgram } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeManifests } from "../../../hack/releasing/cluster-manifests.ts";
import { buildTag, IMAGES, type ReleasedImages } from "../../../hack/releasing/image-names.ts";
import { makeImages, readImages } from "../../../hack/releasing/images.ts";
import { ROOT, type Release } from "../../../hack/releasing/release.ts";

needProgram("/usr/bin/skopeo", "skopeo");
needProgram("/usr/bin/docker-registry", "docker-registry");

const REGISTRY = "registry.example/patchbay";
const INDEX = "application/vnd.oci.image.index.v1+json";
let directory = "";
let address = "";
let registry: ChildProcess | undefined;

/** Makes the pause image, and archives with its content under the names of the others. */
async function makeRelease(): Promise<string> {
  const output = join(directory, "release");
  mkdirSync(output);
  const release: Release = {
    version: VERSION,
    commit: "",
    architectures: [process.arch === "arm64" ? "arm64" : "amd64"],
    registry: REGISTRY,
    url: "",
    epoch: 1_780_000_000,
    output,
    work: join(directory, "work"),
  };
  mkdirSync(release.work);
  makeImages(release, ["pause"]);
  const { pause } = readImages(release);
  const others = IMAGES.filter((image) => image !== "pause");
  for (const image of others) {
    const archive = join(output, `image-pause-${VERSION}.tar`);
    copyFileSync(archive, join(output, `image-${image}-${VERSION}.tar`));
  }
  const all = Object.fromEntries(
    IMAGES.map((image) => [image, { ...pause, tag: buildTag(REGISTRY, image, VERSION) }]),
  ) as ReleasedImages;
  writeFileSync(join(output, "images.json"), JSON.stringify(all));
  await makeManifests(release);
  return output;
}

async function startRegistry(): Promise<void> {
  address = `127.0.0.1:${String(await findFreePort())}`;
  const config = join(directory, "registry.yml");
  const storage = join(directory, "storage");
  writeFileSync(
    config,
    `version: 0.1\nstorage: {filesystem: {rootdirectory: ${storage}}}\nhttp: {addr: "${address}"}\n`,
  );
  registry = spawn("docker-registry", ["serve", config], { stdio: "ignore" });
  await eventually(async () => (await fetch(`http://${address}/v2/`)).ok, { withinMs: 20_000 });
}

/** The documented commands, with this registry, which has no certificate, and a kubectl that prints what it would apply. */
function readCommands(): string {
  const page = readFileSync(join(ROOT, "docs/install.md"), "utf8");
  const block = page.split("```").find((text) => text.includes("skopeo copy")) ?? "";
  const commands = block
    .replace("registry=registry.internal/patchbay", `registry=${address}/patchbay`)
    .replace(/version=\S+/, `version=${VERSION}`);
  return `skopeo() { command skopeo "$@" --dest-tls-verify=false; }\nkubectl() { cat; }\n${commands}`;
}

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "registry-"));
});
afterAll(async () => {
  if (registry?.exitCode === null) {
    registry.kill();
    await once(registry, "exit");
  }
  rmSync(directory, { recursive: true });
});

test(
  "each image of the applied manifest is in the registry by its digest",
  { timeout: 300_000 },
  async () => {
    const output = await makeRelease();
    await startRegistry();
    const applied = execFileSync("sh", ["-euc", readCommands()], {
      cwd: output,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect(applied).not.toContain(REGISTRY);
    const references = [...applied.matchAll(/patchbay\/([\w-]+):[\w.-]+@(sha256:[0-9a-f]{64})/g)];
    expect([...new Set(references.map(([, name = ""]) => name))].sort()).toEqual(
      IMAGES.filter((image) => image !== "pause").toSorted(),
    );
    for (const [, name = "", digest = ""] of references) {
      const url = `http://${address}/v2/patchbay/${name}/manifests/${digest}`;
      const response = await fetch(url, { headers: { accept: INDEX } });
      expect({ name, status: response.status }).toEqual({ name, status: 200 });
    }
  },
);
