// SPDX-License-Identifier: Apache-2.0
// Images of a machine whose programs are fakes; tests/contract/standalone/images.test.ts has a real containerd.
import { names } from "@patchbay/api";
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeClock, createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { buildContainerdLayout } from "../runtime/own-containerd.ts";
import {
  addImageTo,
  listAddedNames,
  listImagesWithSizes,
  expandRemovableReference,
  removeImageFrom,
  classifySource,
} from "./image-store.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;
const paths = buildPaths("/data");
/** Pods can use the image. Source: containerd, CRI plugin. */
const LABEL = "io.cri-containerd.image=managed";
const MANIFEST = JSON.stringify({ config: { size: 1 }, layers: [{ size: 20 }] });

interface Given {
  /** References that containerd has. */
  readonly images?: readonly string[];
  /** What `stat` prints for the source; unset: nothing is there. */
  readonly kind?: string;
  readonly manifest?: string;
  /** Whether an import is lost. */
  readonly isForgetful?: boolean;
  readonly info?: object;
}

/** A machine that records what its containerd is called for. */
function machine(given: Given = {}) {
  const { images = [], kind, manifest = MANIFEST, isForgetful = false, info = {} } = given;
  const known = new Set(images);
  const calls: string[] = [];
  const list = (): string =>
    [
      "REF TYPE DIGEST",
      ...[...known].map((name) => `${name} type ${DIGEST} 1 B ${LABEL}`),
      "",
    ].join("\n");
  const verbs: Readonly<Record<string, (args: readonly string[]) => Partial<CommandResult>>> = {
    ls: () => ({ stdout: list() }),
    import: (args) => {
      calls.push(`import ${(args.at(-1) ?? "").replace(/image-[0-9a-f-]{36}/, "image-ID")}`);
      known.add(`${args[args.indexOf("--base-name") + 1] ?? ""}@${DIGEST}`);
      return {};
    },
    pull: (args) => {
      calls.push(`pull ${args.at(-1) ?? ""}`);
      known.add(args.at(-1) ?? "");
      return { stdout: "layer-sha256:00: done\n" };
    },
    tag: (args) => {
      calls.push(`tag ${args.at(-1) ?? ""}`);
      if (!isForgetful) known.add(args.at(-1) ?? "");
      return {};
    },
    rm: (args) => {
      for (const name of args.slice(1)) known.delete(name);
      return {};
    },
  };
  const ctr = ({ argv }: Command): Partial<CommandResult> => {
    const [group = "", verb = "", ...args] = argv.slice(5);
    if (group === "content") return { stdout: manifest };
    return verbs[verb]?.(args) ?? {};
  };
  const files = createFakeFiles();
  const runner = createFakeProcessRunner({
    ctr,
    stat: ({ argv }) => {
      const [, , format] = argv;
      if (argv.includes("--format=%s") || format === "--format=%s") return { stdout: "2097152\n" };
      return kind === undefined ? { exitCode: 1 } : { stdout: `${kind}\n` };
    },
    sh: () => ({ stdout: JSON.stringify(info) }),
    sha256sum: () => ({ stdout: `${"b".repeat(64)}  -` }),
    ...Object.fromEntries(["tar", "mv", "cp", "chown", "chmod"].map((name) => [name, () => ({})])),
  });
  const layout = buildContainerdLayout(paths);
  return {
    access: { clock: createFakeClock(), files, runner, layout, paths },
    calls,
    known,
    files,
    runner,
  };
}

function add(its: ReturnType<typeof machine>, source: string, signal?: AbortSignal) {
  const lines: string[] = [];
  const image = { name: "web", source, print: (line: string) => lines.push(line) };
  const added = addImageTo(its.access, { ...image, ...(signal !== undefined && { signal }) });
  return { added, lines };
}

const REFERENCE = "docker.io/library/web:latest";
const WEB = { name: "web", reference: REFERENCE, digest: DIGEST, bytes: 21 };
const ARCHIVE = `${buildContainerdLayout(paths).directory}/image-ID/image.tar`;

test.each([
  {
    name: "a directory",
    given: { kind: "directory" },
    source: "/root",
    lines: ["building an image of /root"],
    calls: [`import ${ARCHIVE}`, `tag ${REFERENCE}`],
  },
  {
    name: "an archive",
    given: { kind: "regular file" },
    source: "/web.tar",
    lines: ["importing /web.tar"],
    calls: ["import /web.tar", `tag ${REFERENCE}`],
  },
  {
    name: "a registry",
    given: {},
    source: "quay.io/team/web:1",
    lines: ["fetching quay.io/team/web:1"],
    calls: ["pull quay.io/team/web:1", `tag ${REFERENCE}`],
  },
  {
    name: "a disk",
    given: { kind: "regular file", info: { format: "raw", "virtual-size": 4 * 2 ** 20 } },
    source: "/disk.img",
    lines: [
      "copying /disk.img",
      "raw, 2 MiB; the guest sees 4 MiB: building an image",
      "importing it",
    ],
    calls: [`import ${ARCHIVE}`, `tag ${REFERENCE}`],
  },
])("adds an image from $name", async ({ given, source, lines, calls }) => {
  const its = machine(given);
  const { added, lines: printed } = add(its, source);
  expect(await added).toEqual(WEB);
  expect(printed.slice(0, lines.length)).toEqual(lines);
  expect(its.calls).toEqual(calls);
  expect([...its.known]).toEqual([REFERENCE]);
  expect(its.files.paths.filter((path) => path.includes("/image-"))).toEqual([]);
});

test("the layer of a disk is owned by the launchers, that of a directory by root", async () => {
  const ownerOf = async (given: Given, source: string): Promise<string | undefined> => {
    const its = machine(given);
    await add(its, source).added;
    const [layer] = its.runner.commands.filter(({ argv }) => argv[0] === "tar");
    return layer?.argv.find((argument) => argument.startsWith("--owner="));
  };
  const info = { format: "raw", "virtual-size": 2 ** 20 };
  expect(await ownerOf({ kind: "directory" }, "/root")).toBe("--owner=0");
  expect(await ownerOf({ kind: "regular file", info }, "/disk.img")).toBe(
    `--owner=${String(names.LAUNCHER_UID)}`,
  );
});

test("the programs that copy a disk or pull an image end at the signal", async () => {
  const { signal } = new AbortController();
  const info = { format: "raw", "virtual-size": 2 ** 20 };
  for (const { given, source, program } of [
    { given: { kind: "regular file", info }, source: "/disk.img", program: "cp" },
    { given: {}, source: "quay.io/team/web:1", program: "ctr" },
  ]) {
    const its = machine(given);
    await add(its, source, signal).added;
    const commands = its.runner.commands.filter(({ argv }) => argv[0] === program);
    expect(commands.map((command) => command.signal)).toContain(signal);
  }
});

test("a source that fails leaves no files", async () => {
  const its = machine({ kind: "regular file", info: { format: "vmdk", "virtual-size": 1 } });
  await expect(add(its, "/disk.img").added).rejects.toMatchObject({ code: "IMAGE_SOURCE_INVALID" });
  expect(await its.files.list(buildContainerdLayout(paths).directory)).toEqual([]);
  expect(its.calls).toEqual([]);
});

test.each([
  {
    name: "a name that is not a reference",
    its: machine(),
    image: "A B",
    code: "IMAGE_NAME_INVALID",
  },
  {
    name: "an import that containerd lost",
    its: machine({ kind: "directory", isForgetful: true }),
    image: "web",
    code: "RUNTIME_IMAGE_MISSING",
  },
])("$name causes an error", async ({ its, image, code }) => {
  const added = addImageTo(its.access, { name: image, source: "/root", print: () => undefined });
  await expect(added).rejects.toMatchObject({ code });
});

const OWN = [names.PAUSE_IMAGE, names.LAUNCHER_IMAGE];

test("lists images with their sizes, and omits system images from completion", async () => {
  const its = machine({ images: ["quay.io/team/web:1", ...OWN] });
  const measured = await listImagesWithSizes(its.access);
  expect(measured.map(({ reference }) => reference)).toEqual(
    [...OWN, "quay.io/team/web:1"].toSorted(),
  );
  expect(measured.map(({ bytes }) => bytes)).toEqual([21, 21, 21]);
  expect(await listAddedNames(its.access)).toEqual(["quay.io/team/web:1"]);
});

test("an image without a manifest for this machine has no size", async () => {
  const its = machine({ images: [REFERENCE], manifest: JSON.stringify({ manifests: [] }) });
  expect(await listImagesWithSizes(its.access)).toStrictEqual([
    { name: "web", reference: REFERENCE, digest: DIGEST },
  ]);
});

test("removes an image by its short name", async () => {
  const its = machine({ images: [REFERENCE, "quay.io/team/web:1"] });
  await removeImageFrom(its.access, "web");
  expect([...its.known]).toEqual(["quay.io/team/web:1"]);
  await expect(removeImageFrom(its.access, "web")).rejects.toMatchObject({
    code: "RUNTIME_IMAGE_MISSING",
    details: { image: "web" },
  });
});

test("rejects the removal of an image that every pod needs", async () => {
  const its = machine({ images: OWN });
  for (const image of OWN) {
    const refused = {
      code: "IMAGE_IN_USE",
      details: { image, users: "every pod of this machine" },
    };
    await expect(removeImageFrom(its.access, image)).rejects.toMatchObject(refused);
    expect(() => expandRemovableReference(image)).toThrow("every pod");
  }
  expect(expandRemovableReference("web")).toBe(REFERENCE);
});

test.each([
  { source: "guest", kind: "directory", want: { kind: "directory", path: "/w/guest" } },
  { source: "guest.tar", kind: "regular file", want: { kind: "archive", path: "/w/guest.tar" } },
  { source: "guest.qcow2", kind: "regular file", want: { kind: "disk", path: "/w/guest.qcow2" } },
  { source: "guest.IMG", kind: "regular file", want: { kind: "disk", path: "/w/guest.IMG" } },
  { source: "guest.vmdk", kind: "regular file", want: { kind: "disk", path: "/w/guest.vmdk" } },
  { source: "a.img", kind: "directory", want: { kind: "directory", path: "/w/a.img" } },
  {
    source: "guest",
    kind: undefined,
    want: { kind: "registry", reference: "docker.io/library/guest:latest" },
  },
  {
    source: "localhost:5000/a/b:1",
    kind: undefined,
    want: { kind: "registry", reference: "localhost:5000/a/b:1" },
  },
])("$source with file type $kind is a $want.kind", ({ source, kind, want }) => {
  expect(classifySource(source, `/w/${source}`, kind)).toEqual(want);
});

test.each([
  { source: "./guest", kind: undefined, reason: "there is no such file" },
  { source: "/guest", kind: undefined, reason: "there is no such file" },
  { source: "guest.qcow2", kind: undefined, reason: "there is no such file" },
  { source: "a.raw.xz", kind: undefined, reason: "there is no such file" },
  { source: "..", kind: undefined, reason: "there is no such file" },
  { source: "a.qcow2.xz", kind: "regular file", reason: "unpack it with: unxz a.qcow2.xz" },
  { source: "fifo", kind: "fifo", reason: "it is a fifo" },
  { source: "Guest.tar", kind: undefined, reason: "not an image name" },
])("rejects $source with file type $kind: $reason", ({ source, kind, reason }) => {
  expect(() => classifySource(source, source, kind)).toThrow(reason);
});
