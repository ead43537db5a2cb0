// SPDX-License-Identifier: Apache-2.0
// Which directory is an image, and what is run when a container of it names no command?
import { join } from "node:path";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/ports";

/** The image of launchers, which the runtime makes itself. */
const LAUNCHER_IMAGE = "virt-launcher";
/** Describes an image that is not just its directory's files. */
const DESCRIPTION = "image.json";
/** Where a file of the project is bound to, since the project itself may be in a directory that only root enters. */
const LAUNCHER_PATH = "/run/patchbay/virt-launcher";
/** What of the host's root file system is nobody's business; also the parents of the runtime's directories. */
const HIDDEN = ["/root", "/home", "/srv", "/mnt", "/media", "/var/log", "/var/tmp"];
/** A name that is a directory's name. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:@-]*$/;

/** An image that is there. */
export interface Image {
  /** Directory that becomes the root file system, read-only. */
  readonly root: string;
  /** What is run when the container names no command. */
  readonly entrypoint: readonly string[];
  /** Files of the host that are bound into the container, read-only: source, target. */
  readonly binds: readonly (readonly [string, string])[];
  /** Directories below the root that appear empty. */
  readonly hidden: readonly string[];
  /** Whether user database and host names are the container's own. */
  readonly hasOwnAccounts: boolean;
}

function isImage(value: unknown): value is Image {
  // Written below; only root writes into the directory of images.
  return typeof value === "object" && value !== null && "root" in value && "entrypoint" in value;
}

/**
 * The image of that name, or undefined when it is not there.
 * @throws AppError with RUNTIME_IMAGE_INVALID
 */
export async function findImage(
  files: Files,
  imagesDir: string,
  name: string,
): Promise<Image | undefined> {
  const root = join(imagesDir, name);
  if (!NAME.test(name) || !(await files.exists(root))) return undefined;
  const text = await files.readText(join(root, DESCRIPTION));
  if (text === undefined) {
    return { root, entrypoint: [], binds: [], hidden: [], hasOwnAccounts: false };
  }
  try {
    const description: unknown = JSON.parse(text);
    if (isImage(description)) return description;
    throw new AppError("RUNTIME_IMAGE_INVALID", { image: name, reason: "root is missing" });
  } catch (error) {
    throw new AppError("RUNTIME_IMAGE_INVALID", { image: name, reason: String(error) });
  }
}

/** What describes the launcher's image: the host's root file system with the launcher in it. */
function launcherImage(launcher: string, directories: readonly string[]): Image {
  return {
    root: "/",
    entrypoint: [LAUNCHER_PATH],
    binds: [[launcher, LAUNCHER_PATH]],
    hidden: [...new Set([...HIDDEN, ...directories])].filter((path) => path !== "/").sort(),
    hasOwnAccounts: true,
  };
}

/** Writes the launcher's image, unless somebody has put an image of his own in its place. */
export async function keepLauncherImage(
  files: Files,
  imagesDir: string,
  options: { readonly launcher: string; readonly hidden: readonly string[] },
): Promise<void> {
  const directory = join(imagesDir, LAUNCHER_IMAGE);
  const others = (await files.list(directory)).filter((name) => name !== DESCRIPTION);
  if (others.length > 0) return;
  const text = `${JSON.stringify(launcherImage(options.launcher, options.hidden), undefined, 2)}\n`;
  await files.ensureDirectory(directory);
  const path = join(directory, DESCRIPTION);
  if (text !== (await files.readText(path))) await files.writeAtomic(path, text);
}
