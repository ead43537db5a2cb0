// SPDX-License-Identifier: Apache-2.0
// Where is what of a pod kept?
import { join } from "node:path";
import { AppError } from "@patchbay/core";

/** What a uid may look like: it becomes a directory's name. */
const UID = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,127}$/;

/**
 * Directory of a pod's volumes and files.
 * @throws AppError with OS_PATH_REFUSED when the uid cannot be a directory's name
 */
export function podDirectoryOf(uid: string, podsDir: string): string {
  if (!UID.test(uid))
    throw new AppError("OS_PATH_REFUSED", { path: uid, reason: "it is not a UID" });
  return join(podsDir, uid);
}
