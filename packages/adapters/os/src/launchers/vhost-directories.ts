// SPDX-License-Identifier: Apache-2.0
// Implements VhostDirectories without following symbolic links. mkdir(2) and removals do not follow a link at the end
// of a path. Only root can replace the parent directories with links.
import { chmodSync, chownSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/base";
import type { VhostDirectories } from "@patchbay/core/interfaces";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { descriptorPath, withPathBeneath } from "../files/open-beneath.ts";
import { labelForContainers } from "./selinux.ts";
import {
  DIRECTORY_MODE,
  chooseDirectoryAccess,
  relativeToRun,
  isDirectoryId,
  type DirectoryAccess,
} from "./vhost-rules.ts";
import type { VhostSocketsOptions } from "./vhost-sockets.ts";

export type VhostDirectoriesOptions = Omit<VhostSocketsOptions, "podsDir">;

/** Mode of the parent directories, which every user with access to a subdirectory must be able to traverse. */
const PARENT_MODE = 0o755;
/** Errno names that openat2(2) returns for a symbolic link, and for a file that is not a directory. */
const NOT_A_DIRECTORY_ERRNOS: readonly string[] = ["ELOOP", "ENOTDIR"];

/**
 * Parent directories, in the order of creation. The launchers' directories are created first. When a dataplane creates a socket, the
 * launcher's directory must already exist, because the socket is then hard-linked into the launcher's directory.
 */
const PARENT_DIRECTORIES: readonly string[] = [VHOST_USER_LAUNCHER_DIR, VHOST_USER_DIR];

async function withFileError(path: string, action: () => Promise<void> | void): Promise<void> {
  try {
    await action();
  } catch (error) {
    throw toFileError(error, "sockets' directory", path);
  }
}

class HostVhostDirectories implements VhostDirectories {
  readonly #options: VhostDirectoriesOptions;

  constructor(options: VhostDirectoriesOptions) {
    this.#options = options;
  }

  async makeParents(): Promise<void> {
    for (const parent of PARENT_DIRECTORIES) {
      await withFileError(parent, () => {
        this.#ensureParent(parent);
      });
    }
  }

  async make(id: string): Promise<void> {
    await this.makeParents();
    await this.#forEachParent(id, async (parent) => {
      const access = chooseDirectoryAccess(parent, this.#options);
      if (!this.#makeDirectory(parent, id, access)) {
        await this.#removeFrom(parent, id);
        this.#makeDirectory(parent, id, access);
      }
    });
  }

  async remove(id: string): Promise<void> {
    await this.#forEachParent(id, (parent) => this.#removeFrom(parent, id));
  }

  list(): Promise<readonly string[]> {
    const names = PARENT_DIRECTORIES.flatMap((parent) => this.#namesIn(parent));
    return Promise.resolve([...new Set(names)].filter(isDirectoryId).toSorted());
  }

  async #forEachParent(id: string, action: (parent: string) => Promise<void>): Promise<void> {
    if (!isDirectoryId(id)) {
      const reason = "it is no name of a directory";
      throw new AppError("OS_PATH_REFUSED", { path: `${VHOST_USER_DIR}/${id}`, reason });
    }
    for (const parent of PARENT_DIRECTORIES)
      await withFileError(`${parent}/${id}`, () => action(parent));
  }

  #ensureParent(parent: string): void {
    const { runDir, selinuxDir } = this.#options;
    for (const path of [dirname(parent), parent].map((directory) =>
      join(runDir, relativeToRun(directory)),
    )) {
      mkdirSync(path, { recursive: true, mode: PARENT_MODE });
      chmodSync(path, PARENT_MODE); // Restores the permissions that the umask removed.
    }
    labelForContainers(join(runDir, relativeToRun(parent)), selinuxDir);
  }

  #makeDirectory(parent: string, id: string, { gid, mode }: DirectoryAccess): boolean {
    const { runDir: root, selinuxDir } = this.#options;
    try {
      mkdirSync(join(root, relativeToRun(parent), id), { mode: DIRECTORY_MODE });
    } catch (error) {
      if (errnoOf(error) !== "EEXIST") throw error;
    }
    try {
      return withPathBeneath(
        { root, path: `${relativeToRun(parent)}/${id}` },
        "directory",
        (fd) => {
          chownSync(descriptorPath(fd), 0, gid);
          chmodSync(descriptorPath(fd), mode);
          labelForContainers(descriptorPath(fd), selinuxDir);
          return true;
        },
      );
    } catch (error) {
      if (NOT_A_DIRECTORY_ERRNOS.includes(errnoOf(error) ?? "")) return false;
      throw error;
    }
  }

  async #removeFrom(parent: string, id: string): Promise<void> {
    await osNative().removeTree(join(this.#options.runDir, relativeToRun(parent), id));
  }

  #namesIn(parent: string): readonly string[] {
    try {
      return readdirSync(join(this.#options.runDir, relativeToRun(parent)));
    } catch (error) {
      if (isMissing(error)) return [];
      throw toFileError(error, "list", parent);
    }
  }
}

export function createVhostDirectories(options: VhostDirectoriesOptions): VhostDirectories {
  return new HostVhostDirectories(options);
}
