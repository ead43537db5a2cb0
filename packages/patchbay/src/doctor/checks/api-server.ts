// SPDX-License-Identifier: Apache-2.0
// The API server, and what it serves of ours.
import type { Facts, ServedApi, Trial } from "../facts.ts";
import { ifSeen, ok, wrong, type Finding } from "../finding.ts";

/** The oldest that Patchbay runs on. Source: docs/install.md */
const OLDEST = { major: 1, minor: 26 };
/** Check whose clock virt-api's trial shows. */
export const SERVER_CLOCK = "clock of the API server";
/** Most by which two clocks may differ, milliseconds; the server tells whole seconds. */
const SKEW_MAX_MS = 5_000;

function judgeVersion(version: string): readonly Finding[] {
  const check = "API server";
  const [, major = "0", minor = "0"] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  const isNew =
    Number(major) > OLDEST.major ||
    (Number(major) === OLDEST.major && Number(minor) >= OLDEST.minor);
  if (isNew) return [ok(check, `Kubernetes ${version}`)];
  const oldest = `${String(OLDEST.major)}.${String(OLDEST.minor)}`;
  return [
    wrong(check, {
      says: `Kubernetes ${version} is older than ${oldest}`,
      fix: `bring the cluster to Kubernetes ${oldest} or later`,
    }),
  ];
}

function judgeClock({ serverMs }: Trial, nowMs: number): readonly Finding[] {
  const check = SERVER_CLOCK;
  const skewMs = serverMs - nowMs;
  if (Math.abs(skewMs) <= SKEW_MAX_MS) return [ok(check, "is this computer's")];
  const seconds = String(Math.round(Math.abs(skewMs) / 1000));
  return [
    wrong(check, {
      says: `is ${seconds} s ${skewMs > 0 ? "ahead of" : "behind"} this computer's: certificates and leases are judged by it`,
      fix: "set both clocks by NTP: timedatectl set-ntp true",
    }),
  ];
}

function judgeApi({ groupVersion, resources, served }: ServedApi): readonly Finding[] {
  const check = `API ${groupVersion}`;
  if ("unseen" in served) {
    return [
      wrong(check, {
        says: `is not served: ${served.unseen}`,
        fix: "bring the installation up to date: patchbay install; on a standalone machine: patchbay up",
      }),
    ];
  }
  const missing = resources.filter((name) => !served.seen.includes(name));
  if (missing.length === 0) return [ok(check, `serves ${resources.join(", ")}`)];
  return [
    wrong(check, {
      says: `lacks ${missing.join(", ")}`,
      fix: "another version of Patchbay, or KubeVirt, made these kinds; patchbay install names what is in the way",
    }),
  ];
}

/** Version, clock and kinds. */
export function judgeApiServer({ serverVersion, apis, trial, nowMs }: Facts): readonly Finding[] {
  return [
    ...ifSeen("API server", serverVersion, judgeVersion),
    ...ifSeen(SERVER_CLOCK, trial, (seen) => judgeClock(seen, nowMs)),
    ...apis.flatMap(judgeApi),
  ];
}
