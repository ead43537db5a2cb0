// SPDX-License-Identifier: Apache-2.0
// Whether launchers can have sockets of vhost-user where SELinux is on: a machine's own kernel is asked. Of a cluster's nodes the
// doctor sees that they offer no sockets, and virt-handler's log says why.
import type { Selinux } from "@patchbay/os";
import type { Facts } from "../facts.ts";
import { ifSeen, ok, wrong, type Finding } from "../finding.ts";

const CHECK = "SELinux";

function judge({ mode, knowsContainers }: Selinux): readonly Finding[] {
  if (mode === "off") return [];
  if (!knowsContainers) {
    return [
      wrong(CHECK, {
        says: `is ${mode}, and its policy has no type container_file_t: no VM has sockets of vhost-user`,
        fix: "install the policy of containers: dnf install container-selinux",
      }),
    ];
  }
  const refused =
    mode === "enforcing"
      ? "; whether launchers may connect to a dataplane of vhost-user is for the policy of that: ausearch -m avc -ts recent"
      : "";
  return [ok(CHECK, `is ${mode}, and has the type of containers' files${refused}`)];
}

/** Nothing where there is none. */
export function judgeSelinux({ selinux }: Facts): readonly Finding[] {
  return selinux === undefined ? [] : ifSeen(CHECK, selinux, judge);
}
