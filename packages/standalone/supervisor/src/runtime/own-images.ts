// SPDX-License-Identifier: Apache-2.0
// Imports the pause image and the launcher image from local archives, because no registry serves these images.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { names } from "@patchbay/api";
import { findImage, importImage, type ImageChangeDeps } from "@patchbay/containerd";
import { AppError } from "@patchbay/base";
import { readNumber, readFields, readText } from "../data-dir/json.ts";
import { buildContainerdLayout, type RuntimeDeps } from "./own-containerd.ts";

/** Directory in which hack/images/make-images creates `NAME.tar`, and `NAME.json` with the digest and the size. */
const ARCHIVES = fileURLToPath(new URL("../../../../../.cache/images", import.meta.url));
const MAKE_COMMAND = "hack/images/make-images";
const BYTES_PER_MB = 1_000_000;

const OWN_IMAGES: readonly (readonly [archive: string, reference: string])[] = [
  ["pause", names.PAUSE_IMAGE],
  ["virt-launcher", names.LAUNCHER_IMAGE],
];

type ReportStep = (text: string) => Promise<void>;

interface Archive {
  readonly digest: string;
  readonly bytes: number;
}

async function readArchive({ files }: ImageChangeDeps, name: string): Promise<Archive | undefined> {
  const fields = await readFields(files, join(ARCHIVES, `${name}.json`));
  const digest = readText(fields, "digest");
  return digest === "" ? undefined : { digest, bytes: readNumber(fields, "bytes") ?? 0 };
}

async function importIfChanged(
  deps: ImageChangeDeps,
  [name, reference]: readonly [archive: string, reference: string],
  reportStep: ReportStep,
): Promise<void> {
  const existing = await findImage(deps, reference);
  const archive = await readArchive(deps, name);
  if (archive === undefined && existing === undefined) {
    const reason = `image ${reference} is not on this machine and has no archive; build it with: ${MAKE_COMMAND}`;
    throw new AppError("RUNTIME_START_FAILED", { component: "containerd", reason });
  }
  if (archive === undefined || existing?.digest === archive.digest) return;
  await reportStep(
    `importing image ${name}, ${String(Math.ceil(archive.bytes / BYTES_PER_MB))} MB`,
  );
  await importImage(deps, { archive: join(ARCHIVES, `${name}.tar`), id: name }, reference);
  await reportStep(`image ${name} is present`);
}

/**
 * Imports the images whose archives have changed. A missing archive is ignored if the image exists.
 * @throws AppError with RUNTIME_START_FAILED when an image and its archive are missing
 */
export async function importOwnImages(
  runtime: RuntimeDeps & Pick<ImageChangeDeps, "clock">,
  reportStep: ReportStep,
): Promise<void> {
  const deps = { ...runtime, layout: buildContainerdLayout(runtime.paths) };
  for (const ownImage of OWN_IMAGES) await importIfChanged(deps, ownImage, reportStep);
}
