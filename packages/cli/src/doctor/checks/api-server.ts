// SPDX-License-Identifier: Apache-2.0
// Checks of the API server: its version, clock and kinds, the admission of virt-api, and certificates.
import type { Facts, ServedApi, Trial, CertificateEnd } from "../facts.ts";
import { ifSeen, ok, wrong, type Finding } from "../finding.ts";
import type { ApiService } from "@patchbay/api";
import { printTime } from "@patchbay/kube";

/** Oldest supported version. Source: docs/install.md */
const OLDEST_VERSION = { major: 1, minor: 26 };
export const SERVER_CLOCK = "clock of the API server";
/** Largest accepted difference between two clocks, milliseconds; the server reports whole seconds. */
const SKEW_MAX_MS = 5_000;

function judgeVersion(version: string): readonly Finding[] {
  const check = "API server";
  const [, major = "0", minor = "0"] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  const isSupported =
    Number(major) > OLDEST_VERSION.major ||
    (Number(major) === OLDEST_VERSION.major && Number(minor) >= OLDEST_VERSION.minor);
  if (isSupported) return [ok(check, `Kubernetes ${version}`)];
  const oldest = `${String(OLDEST_VERSION.major)}.${String(OLDEST_VERSION.minor)}`;
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

export function judgeApiServer({ serverVersion, apis, trial, nowMs }: Facts): readonly Finding[] {
  return [
    ...ifSeen("API server", serverVersion, judgeVersion),
    ...ifSeen(SERVER_CLOCK, trial, (seen) => judgeClock(seen, nowMs)),
    ...apis.flatMap(judgeApi),
  ];
}

const WEBHOOKS = "webhooks of virt-api";
const INSPECT_WEBHOOKS =
  "see virt-api's log, and: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations patchbay";

function judgeTrial({ isFilledIn, isRefused }: Trial): readonly Finding[] {
  if (isFilledIn && isRefused) return [ok(WEBHOOKS, "fill in VMs, and refuse wrong ones")];
  const says = [
    ...(isFilledIn ? [] : ["a VM is not filled in"]),
    ...(isRefused ? [] : ["a wrong VM is not refused"]),
  ].join(", and ");
  return [
    wrong(WEBHOOKS, {
      says: `${says}: the API server does not ask virt-api`,
      fix: `make the webhooks anew: patchbay install; on a standalone machine: patchbay up; ${INSPECT_WEBHOOKS}`,
    }),
  ];
}

function judgeService({ metadata, status }: ApiService): Finding {
  const check = `APIService ${metadata.name}`;
  const condition = status?.conditions?.find(({ type }) => type === "Available");
  if (condition?.status === "True") return ok(check, "virt-api answers");
  return wrong(check, {
    says: `virt-api does not answer: ${condition?.message ?? "it was not asked yet"}`,
    fix: "see whether virt-api runs, and its log; requests to VMs fail until it answers",
  });
}

export function judgeAdmission({ trial, apiServices }: Facts): readonly Finding[] {
  return [
    ...("unseen" in trial && trial.unseen.includes("webhook")
      ? [wrong(WEBHOOKS, { says: trial.unseen, fix: INSPECT_WEBHOOKS })]
      : ifSeen(WEBHOOKS, trial, judgeTrial)),
    ...ifSeen("APIServices of virt-api", apiServices, (seen) => seen.map(judgeService)),
  ];
}

const DAY_MS = 86_400_000;
/** Certificates are renewed earlier than this many days before they expire. */
const LEFT_MIN_DAYS = 14;

function printDay(ms: number): string {
  return printTime(ms).slice(0, "2026-01-01".length);
}

function judgeEnd({ of, endsMs }: CertificateEnd, nowMs: number): Finding {
  const check = `certificate: ${of}`;
  const left = (endsMs - nowMs) / DAY_MS;
  if (left >= LEFT_MIN_DAYS) return ok(check, `is good until ${printDay(endsMs)}`);
  return wrong(check, {
    says: left <= 0 ? `ended on ${printDay(endsMs)}` : `ends on ${printDay(endsMs)}`,
    fix: "renew it where it was made; those of Patchbay are renewed by virt-api, on a standalone machine by the supervisor: see their logs",
  });
}

export function judgeCertificates({ certificates, nowMs }: Facts): readonly Finding[] {
  return certificates.map((one) => judgeEnd(one, nowMs));
}
