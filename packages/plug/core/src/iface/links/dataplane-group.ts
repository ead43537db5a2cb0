// SPDX-License-Identifier: Apache-2.0
// Which group may make sockets of vhost-user, where the dataplane is not root?
import { names } from "@patchbay/api";

/** The flag of who makes and who judges them. */
export const DATAPLANE_GROUP_FLAG = {
  flags: "--dataplane-group <gid>",
  description:
    "group, by its number, of a dataplane of vhost-user that is not root: its members may make sockets in the pods' directories, and those of another group are refused; 0: root makes them",
} as const;

/** Source: linux/uidgid.h, whose last number is nobody's. */
const GID_MAX = 2 ** 32 - 2;

/** Why it cannot be that group; undefined: it can. 0 is root's: none but root makes sockets. */
export function dataplaneGroupProblem(gid: number): string | undefined {
  if (!Number.isInteger(gid) || gid < 0 || gid > GID_MAX) return "it must be the number of a group";
  return gid === names.LAUNCHER_UID
    ? "it is the launchers' own, each of which could make sockets for others then"
    : undefined;
}
