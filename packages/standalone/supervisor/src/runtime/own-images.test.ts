// SPDX-License-Identifier: Apache-2.0
// Which of the images that every pod needs are imported, on a containerd tool in memory.
import { names } from "@patchbay/api";
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeClock, createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { importOwnImages } from "./own-images.ts";

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
/** Pods can use the image. Source: containerd, CRI plugin. */
const LABEL = "io.cri-containerd.image=managed";
const [OLD, NEW] = [digest("0"), digest("1")];

interface Given {
  readonly images: Readonly<Record<string, string>>;
  /** Descriptions beside the archives, by name. */
  readonly archives: Readonly<Record<string, object>>;
}

async function keep({ images, archives }: Given) {
  const known = new Map(Object.entries(images));
  const imported: string[] = [];
  const ctr = ({ argv }: Command): Partial<CommandResult> => {
    const [, verb = "", ...args] = argv.slice(5);
    const last = args.at(-1) ?? "";
    const base = args[args.indexOf("--base-name") + 1] ?? "";
    if (verb === "import") {
      imported.push(last.split("/").at(-1) ?? "");
      known.set(`${base}@${NEW}`, NEW);
    }
    if (verb === "tag") known.set(last, NEW);
    if (verb === "rm") for (const name of args) known.delete(name);
    const lines = [...known].map(([name, of]) => `${name} type ${of} 1 B - ${LABEL}`);
    return verb === "ls" ? { stdout: ["REF TYPE DIGEST", ...lines, ""].join("\n") } : {};
  };
  const files = createFakeFiles();
  const read = files.readText.bind(files);
  files.readText = (path) => {
    const name = /\.cache\/images\/(.*)\.json$/.exec(path)?.[1];
    const archive = name === undefined ? undefined : archives[name];
    return archive === undefined ? read(path) : Promise.resolve(JSON.stringify(archive));
  };
  const steps: string[] = [];
  const clock = createFakeClock();
  const runner = createFakeProcessRunner({ ctr });
  const deps = { clock, files, runner, log: createSilentLogger() };
  const keeping = importOwnImages({ ...deps, paths: buildPaths("/d"), bootId: "boot" }, (text) => {
    steps.push(text);
    return Promise.resolve();
  });
  const error = await keeping.catch(String);
  return { error, steps, imported };
}

const BOTH = { [names.PAUSE_IMAGE]: NEW, [names.LAUNCHER_IMAGE]: NEW };
const ARCHIVES = {
  pause: { digest: NEW, bytes: 1_000_001 },
  "virt-launcher": { digest: NEW, bytes: 3_000_000 },
};

test.each([
  {
    name: "identical to the archives",
    given: { images: BOTH, archives: ARCHIVES },
    imported: [],
    steps: [],
  },
  { name: "without archives", given: { images: BOTH, archives: {} }, imported: [], steps: [] },
  {
    name: "that are missing",
    given: { images: {}, archives: ARCHIVES },
    imported: ["pause.tar", "virt-launcher.tar"],
    steps: [
      "importing image pause, 2 MB",
      "image pause is present",
      "importing image virt-launcher, 3 MB",
      "image virt-launcher is present",
    ],
  },
  {
    name: "with an outdated image",
    given: { images: { ...BOTH, [names.LAUNCHER_IMAGE]: OLD }, archives: ARCHIVES },
    imported: ["virt-launcher.tar"],
    steps: ["importing image virt-launcher, 3 MB", "image virt-launcher is present"],
  },
  {
    name: "whose archive does not report its size",
    given: { images: { ...BOTH, [names.PAUSE_IMAGE]: OLD }, archives: { pause: { digest: NEW } } },
    imported: ["pause.tar"],
    steps: ["importing image pause, 0 MB", "image pause is present"],
  },
])("images $name: imports $imported", async ({ given, imported, steps }) => {
  expect(await keep(given)).toEqual({ error: undefined, steps, imported });
});

test("fails the start if an image is neither present nor in an archive", async () => {
  const { error, imported } = await keep({ images: {}, archives: { pause: { digest: "" } } });
  expect(error).toContain(`image ${names.PAUSE_IMAGE} is not on this machine`);
  expect(imported).toEqual([]);
});
