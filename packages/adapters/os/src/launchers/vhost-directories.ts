// SPDX-License-Identifier: Apache-2.0
// The port VhostDirectories on this machine. A dataplane that has the parent of its directories cannot replace that, but may
// have put anything in their places: neither mkdir(2) nor a removal follows a link that has the name.
import { chmodSync, chownSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { VHOST_USER_DIR, VHOST_USER_SHOWN_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";
import type { VhostDirectories } from "@patchbay/core/ports";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { pathOf, using } from "./beneath.ts";
import { labelForContainers } from "./selinux.ts";
import {
  DIRECTORY_MODE,
  directoryAccess,
  fromRun,
  isDirectoryId,
  type DirectoryAccess,
} from "./vhost-rules.ts";
import type { VhostSocketsOptions } from "./vhost-sockets.ts";

/** What {@link createVhostDirectories} needs. */
export type VhostDirectoriesOptions = Omit<VhostSocketsOptions, "podsDir">;

/** Ours and others': who has a right below it must come through. */
const PARENT_MODE = 0o755;
/** Something else has the name. Source: openat2(2). */
const NO_DIRECTORY: readonly string[] = ["ELOOP", "ENOTDIR"];

/** What is shown first: nothing is to be shown that nobody serves. */
const PARENTS: readonly string[] = [VHOST_USER_SHOWN_DIR, VHOST_USER_DIR];

async function orFileError(path: string, act: () => Promise<void> | void): Promise<void> {
  try {
    await act();
  } catch (error) {
    throw toFileError(error, "sockets' directory", path);
  }
}

class MachineDirectories implements VhostDirectories {
  readonly #options: VhostDirectoriesOptions;

  constructor(options: VhostDirectoriesOptions) {
    this.#options = options;
  }

  async makeParents(): Promise<void> {
    for (const parent of PARENTS) {
      await orFileError(parent, () => {
        this.#keepParent(parent);
      });
    }
  }

  async make(id: string): Promise<void> {
    await this.makeParents();
    await this.#inBoth(id, async (parent) => {
      const access = directoryAccess(parent, this.#options);
      if (!this.#keep(parent, id, access)) {
        await this.#removeFrom(parent, id);
        this.#keep(parent, id, access);
      }
    });
  }

  async remove(id: string): Promise<void> {
    await this.#inBoth(id, (parent) => this.#removeFrom(parent, id));
  }

  list(): Promise<readonly string[]> {
    const found = PARENTS.flatMap((parent) => this.#namesIn(parent));
    return Promise.resolve([...new Set(found)].filter(isDirectoryId).toSorted());
  }

  async #inBoth(id: string, act: (parent: string) => Promise<void>): Promise<void> {
    if (!isDirectoryId(id)) {
      const reason = "it is no name of a directory";
      throw new AppError("OS_PATH_REFUSED", { path: `${VHOST_USER_DIR}/${id}`, reason });
    }
    for (const parent of PARENTS) await orFileError(`${parent}/${id}`, () => act(parent));
  }

  /** Both parents are root's, and in a directory of root's. */
  #keepParent(parent: string): void {
    const { runDir, selinuxDir } = this.#options;
    for (const path of [dirname(parent), parent].map((one) => join(runDir, fromRun(one)))) {
      mkdirSync(path, { recursive: true, mode: PARENT_MODE });
      chmodSync(path, PARENT_MODE); // whatever the process masks
    }
    labelForContainers(join(runDir, fromRun(parent)), selinuxDir);
  }

  /** Whether there is a directory of that name by now. */
  #keep(parent: string, id: string, { gid, mode }: DirectoryAccess): boolean {
    const { runDir: root, selinuxDir } = this.#options;
    try {
      mkdirSync(join(root, fromRun(parent), id), { mode: DIRECTORY_MODE });
    } catch (error) {
      if (errnoOf(error) !== "EEXIST") throw error;
    }
    try {
      return using({ root, path: `${fromRun(parent)}/${id}` }, "directory", (fd) => {
        chownSync(pathOf(fd), 0, gid);
        chmodSync(pathOf(fd), mode);
        labelForContainers(pathOf(fd), selinuxDir);
        return true;
      });
    } catch (error) {
      if (NO_DIRECTORY.includes(errnoOf(error) ?? "")) return false;
      throw error;
    }
  }

  async #removeFrom(parent: string, id: string): Promise<void> {
    await osNative().removeTree(join(this.#options.runDir, fromRun(parent), id));
  }

  #namesIn(parent: string): readonly string[] {
    try {
      return readdirSync(join(this.#options.runDir, fromRun(parent)));
    } catch (error) {
      if (isMissing(error)) return [];
      throw toFileError(error, "list", parent);
    }
  }
}

/** The directories of sockets of the node whose `/run` is named. */
export function createVhostDirectories(options: VhostDirectoriesOptions): VhostDirectories {
  return new MachineDirectories(options);
}
