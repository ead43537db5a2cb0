// SPDX-License-Identifier: Apache-2.0
// Images of a containerd whose tool is in memory.
import { createFakeClock, createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { describe, expect, test } from "vitest";
import {
  listAdded,
  findImage,
  importImage,
  listImages,
  pullImage,
  readSnapshotter,
  removeImage,
  parseMarkedNames,
} from "./images.ts";
import { measureImage } from "./measure-image.ts";

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
const [A, B, ID_A, ID_B] = [digest("a"), digest("b"), digest("1"), digest("2")];
const layout = { socket: "/s", config: "/config.toml", registryHosts: "/hosts" };
const MANAGED = "io.cri-containerd.image=managed";
const HEAD = ["ctr", "--address", "/s", "--namespace", "k8s.io"];

/** Names of images, and what the tool does to them. */
class Tool {
  readonly files = createFakeFiles();
  readonly names = new Map<string, string>();
  readonly labels = new Map<string, string>();
  /** What an import or a pull brings. */
  readonly brought = new Map<string, string>();
  readonly contents = new Map<string, string>();
  readonly runner = createFakeProcessRunner({ ctr: (command) => this.#run(command) });
  readonly clock = createFakeClock();
  readonly deps = { clock: this.clock, files: this.files, runner: this.runner, layout };
  /** Names that CRI has handled, which replaces their labels, and the listings of one name before. */
  readonly managed = new Set<string>();
  criDelay = 0;

  /** Calls that change something, without what they have in common. */
  get changes(): readonly string[] {
    return this.runner.commands
      .map(({ argv }) => argv.slice(HEAD.length).join(" "))
      .filter((call) => !call.startsWith("images ls"));
  }

  #run({ argv }: Command): Partial<CommandResult> {
    const [what = "", verb = "", ...args] = argv.slice(HEAD.length);
    const last = args.at(-1) ?? "";
    if (argv.slice(0, HEAD.length).join() !== HEAD.join())
      return { exitCode: 1, stderr: "no head" };
    if (what === "content") return { stdout: this.contents.get(last) ?? "" };
    if (verb === "ls") return { stdout: this.#list(args) };
    if (verb === "rm") for (const name of args) this.names.delete(name);
    if (verb === "tag") this.names.set(last, this.names.get(args.at(-2) ?? "") ?? "");
    if (verb === "label") this.labels.set(args[0] ?? "", last);
    const isBrought = verb === "import" || verb === "pull";
    if (isBrought) for (const [name, of] of this.brought) this.names.set(name, of);
    return isBrought && this.brought.size === 0 ? { exitCode: 1, stderr: "ctr: not found" } : {};
  }

  #handleEvent(name: string): void {
    this.criDelay -= 1;
    if (this.criDelay >= 0 || this.managed.has(name)) return;
    this.managed.add(name);
    this.labels.delete(name);
  }

  #list([filter]: readonly string[]): string {
    const wanted = filter === undefined ? undefined : /^name=="(.*)"$/.exec(filter)?.[1];
    const all = [...this.names].filter(([name]) => filter === undefined || name === wanted);
    if (wanted !== undefined) this.#handleEvent(wanted);
    const lines = all.map(([name, of]) => {
      const labels = [this.managed.has(name) ? MANAGED : "-", this.labels.get(name) ?? "-"];
      return `${name} type ${of} 1 B - ${labels.join()}`;
    });
    return ["REF TYPE DIGEST SIZE PLATFORMS LABELS", ...lines, ""].join("\n");
  }
}

test("lists images sorted by name, and finds images by name", async () => {
  const { deps, names } = new Tool();
  for (const [name, of] of [
    ["r/b:1", B],
    ["r/a:1", A],
    [ID_A, A],
  ] as const)
    names.set(name, of);
  const a = { name: "r/a:1", digest: A };
  expect(await listImages(deps)).toEqual([a, { name: "r/b:1", digest: B }]);
  expect(await findImage(deps, "r/a:1")).toEqual(a);
  expect(await findImage(deps, "r/a")).toBeUndefined();
});

test.each([
  { text: 'x = 1\nsnapshotter = "native"\n', want: "native" },
  { text: '# snapshotter = "native"\n', want: "overlayfs" },
  { text: 'snapshotter = "native" x\n', want: "overlayfs" },
  { text: undefined, want: "overlayfs" },
])("layers are on disk as configured: $want", async ({ text, want }) => {
  const { deps, files } = new Tool();
  if (text !== undefined) await files.writeAtomic("/config.toml", text);
  expect(await readSnapshotter(files, deps.layout)).toBe(want);
});

describe("an import", () => {
  const source = { archive: "/a.tar", id: "7" };
  const base = "import.invalid/7";

  test("tags and labels the only image of an archive, and retains nothing else", async () => {
    const tool = new Tool();
    for (const name of [`${base}@${A}`, `${base}:latest`]) tool.brought.set(name, A);
    tool.brought.set(ID_A, A).set(ID_B, B);
    tool.names.set("r/x:1", B);
    await importImage(tool.deps, source, "r/x:1");
    expect([...tool.names]).toEqual([
      ["r/x:1", A],
      [ID_A, A],
    ]);
    expect(await listAdded(tool.deps)).toEqual(["r/x:1"]);
    expect(tool.changes).toEqual([
      `images import --base-name ${base} --digests --snapshotter overlayfs /a.tar`,
      `images tag --force ${base}@${A} r/x:1`,
      `images label r/x:1 patchbay.io/added=${A}`,
      `images rm --sync ${base}@${A} ${base}:latest`,
      `images rm --sync ${ID_B}`,
    ]);
    expect(tool.runner.commands.map(({ timeoutMs }) => timeoutMs).slice(0, 2)).toEqual([
      3_600_000, 60_000,
    ]);
  });

  test.each([
    { name: "until pods can use the image", criDelay: 2, want: 100 },
    { name: "a minute for an image that CRI cannot read", criDelay: Infinity, want: 60_000 },
  ])("waits $name", async ({ criDelay, want }) => {
    const tool = new Tool();
    tool.brought.set(`${base}@${A}`, A);
    tool.criDelay = criDelay;
    const { clock } = tool;
    const imported = importImage(tool.deps, source, "r/x:1");
    for (let ms = 0; ms < want; ms += 50) {
      while (clock.dueMs.length === 0) await clock.advance(0);
      await clock.advance(50);
    }
    await imported;
    expect(clock.monotonicMs()).toBe(want);
    expect(await listAdded(tool.deps)).toEqual(["r/x:1"]);
  });

  test.each([
    {
      name: "an image without a manifest for this architecture",
      digests: [],
      want: "it contains no image for this machine's architecture",
    },
    { name: "two", digests: [A, B], want: "it contains 2 images; it must contain exactly one" },
  ])("of $name fails and retains nothing", async ({ digests, want }) => {
    const tool = new Tool();
    tool.brought.set("import.invalid/other@x", A);
    for (const of of digests) tool.brought.set(`${base}@${of}`, of);
    await expect(importImage(tool.deps, source, "r/x:1")).rejects.toThrow(want);
    expect([...tool.names.keys()]).toEqual(["import.invalid/other@x"]);
  });
});

describe("a pull", () => {
  const pull = (tool: Tool, reference: string, name: string) =>
    pullImage(tool.deps, { reference, name }, {});

  test("retains only the requested name", async () => {
    const tool = new Tool();
    tool.brought.set("r/x:1", A).set(ID_B, B);
    await pull(tool, "r/x:1", "local/x:1");
    expect([...tool.names.keys()]).toEqual(["local/x:1"]);
    expect(tool.changes[0]).toBe("images pull --hosts-dir /hosts --snapshotter overlayfs r/x:1");
    expect(tool.runner.commands[1]?.timeoutMs).toBe(3_600_000);
  });

  test("retains the other name if it existed before", async () => {
    const tool = new Tool();
    tool.brought.set("r/x:1", A);
    tool.names.set("r/x:1", B);
    await pull(tool, "r/x:1", "local/x:1");
    expect([...tool.names]).toEqual([
      ["r/x:1", A],
      ["local/x:1", A],
    ]);
  });

  test("of an image under its own name labels it without a new name", async () => {
    const tool = new Tool();
    tool.brought.set("r/x:1", A);
    await pull(tool, "r/x:1", "r/x:1");
    expect([...tool.names.keys()]).toEqual(["r/x:1"]);
    expect(tool.changes.slice(1)).toEqual([`images label r/x:1 patchbay.io/added=${A}`]);
  });

  test("forwards the tool's output and errors", async () => {
    const tool = new Tool();
    const printed: string[] = [];
    const onOutput = (text: string): void => void printed.push(text);
    const names = { reference: "r/x:1", name: "r/x:1" };
    await expect(pullImage(tool.deps, names, { onOutput })).rejects.toThrow("not found");
    expect(printed).toHaveLength(1);
  });
});

test("removing a name also removes its unused digest, and a repetition changes nothing", async () => {
  const tool = new Tool();
  for (const name of ["r/x:1", `r/x@${A}`, ID_A]) tool.names.set(name, A);
  tool.names.set("r/y:1", B);
  await removeImage(tool.deps, "r/x:1");
  expect([...tool.names.keys()]).toEqual(["r/y:1"]);
  const before = tool.changes.length;
  await removeImage(tool.deps, "r/x:1");
  expect(tool.changes).toHaveLength(before);
});

test("finds added names by name", async () => {
  const tool = new Tool();
  tool.names.set("r/x:1", A).set("r/y:1", A).set("r/z:1", B);
  for (const name of ["r/x:1", "r/y:1", "r/z:1"]) tool.managed.add(name);
  for (const name of ["r/x:1", "r/y:1", "r/z:1"]) tool.labels.set(name, `patchbay.io/added=${A}`);
  expect(await listAdded(tool.deps)).toEqual(["r/x:1", "r/y:1"]);
  expect(await listAdded(tool.deps, "r/y:1")).toEqual(["r/y:1"]);
  expect(await listAdded(tool.deps, "r/z:1")).toEqual([]);
});

test("an image's size is the size in its manifest, found through an index", async () => {
  const tool = new Tool();
  const manifests = [{ digest: B, platform: { os: "linux", architecture: "arm64" } }];
  tool.contents.set(A, JSON.stringify({ manifests }));
  const layers = [{ size: 30 }, { size: 4 }];
  tool.contents.set(B, JSON.stringify({ config: { size: 1 }, layers }));
  expect(await measureImage(tool.deps, B, "arm64")).toBe(35);
  expect(await measureImage(tool.deps, A, "arm64")).toBe(35);
  expect(await measureImage(tool.deps, A, "amd64")).toBeUndefined();
});

const DIGEST = `sha256:${"a".repeat(64)}`;
const OTHER = `sha256:${"b".repeat(64)}`;

function listing(labels: string): string {
  return [
    "REF TYPE DIGEST SIZE PLATFORMS LABELS",
    `reg/a:1 application/vnd.oci.image.manifest.v1+json ${DIGEST} 1.2 MiB linux/amd64 ${labels} `,
    "",
  ].join("\n");
}

test.each([
  { name: "an image with the mark", labels: `patchbay.io/added=${DIGEST}`, want: ["reg/a:1"] },
  {
    name: "a mark among other labels",
    labels: `a=b,patchbay.io/added=${DIGEST},c=d`,
    want: ["reg/a:1"],
  },
  { name: "not an image without labels", labels: "-", want: [] },
  {
    name: "not a tag that moved to another digest",
    labels: `patchbay.io/added=${OTHER}`,
    want: [],
  },
])("marks user-added images: $name", ({ labels, want }) => {
  expect(parseMarkedNames(listing(labels))).toEqual(want);
});
