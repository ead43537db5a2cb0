// SPDX-License-Identifier: Apache-2.0
// Checks of the API server: version, clock, kinds, admission by virt-api, and certificates.
import {
  computeSkewMs,
  type Facts,
  type ServedApi,
  type Trial,
  type CertificateEnd,
} from "../facts.ts";
import { ifObserved, ok, wrong, type Finding } from "../finding.ts";
import type { ApiService } from "@patchbay/api/kubernetes";
import { printTime } from "@patchbay/kube";

/** Oldest supported version. Source: docs/install.md */
const MIN_VERSION = { major: 1, minor: 26 };
export const SERVER_CLOCK = "clock of the API server";
const SKEW_MAX_MS = 5_000;

export function judgeVersion(version: string): readonly Finding[] {
  const check = "API server";
  const [, major = "0", minor = "0"] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  const isSupported =
    Number(major) > MIN_VERSION.major ||
    (Number(major) === MIN_VERSION.major && Number(minor) >= MIN_VERSION.minor);
  if (isSupported) return [ok(check, `Kubernetes ${version}`)];
  const oldest = `${String(MIN_VERSION.major)}.${String(MIN_VERSION.minor)}`;
  return [
    wrong(check, {
      message: `Kubernetes ${version} is older than ${oldest}`,
      fix: `upgrade the cluster to Kubernetes ${oldest} or later`,
    }),
  ];
}

function judgeClock(trial: Trial): readonly Finding[] {
  const check = SERVER_CLOCK;
  const skewMs = computeSkewMs(trial);
  if (Math.abs(skewMs) <= SKEW_MAX_MS) return [ok(check, "matches this computer's clock")];
  const seconds = String(Math.round(Math.abs(skewMs) / 1000));
  return [
    wrong(check, {
      message: `is ${seconds} s ${skewMs > 0 ? "ahead of" : "behind"} this computer's: it decides whether certificates and leases are valid`,
      fix: "set both clocks by NTP: timedatectl set-ntp true",
    }),
  ];
}

function judgeApi({ groupVersion, resources, served }: ServedApi): readonly Finding[] {
  const check = `API ${groupVersion}`;
  if ("failure" in served) {
    return [
      wrong(check, {
        message: `is not served: ${served.failure}`,
        fix: "upgrade the installation: patchbay install; on a standalone machine: patchbay up",
      }),
    ];
  }
  const missing = resources.filter((name) => !served.value.includes(name));
  if (missing.length === 0) return [ok(check, `serves ${resources.join(", ")}`)];
  return [
    wrong(check, {
      message: `lacks ${missing.join(", ")}`,
      fix: "another version of Patchbay, or KubeVirt, created these kinds; patchbay install reports the conflict",
    }),
  ];
}

export function judgeApiServer({ serverVersion, apis, trial }: Facts): readonly Finding[] {
  return [
    ...ifObserved("API server", serverVersion, judgeVersion),
    ...ifObserved(SERVER_CLOCK, trial, judgeClock),
    ...apis.flatMap(judgeApi),
  ];
}

const WEBHOOKS = "webhooks of virt-api";
const INSPECT_WEBHOOKS =
  "see virt-api's log, and: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations patchbay";

function judgeTrial({ hasDefaults, isRefused }: Trial): readonly Finding[] {
  if (hasDefaults && isRefused)
    return [ok(WEBHOOKS, "set defaults of VMs and reject invalid ones")];
  const message = [
    ...(hasDefaults ? [] : ["defaults of a VM are not set"]),
    ...(isRefused ? [] : ["an invalid VM is not rejected"]),
  ].join(", and ");
  return [
    wrong(WEBHOOKS, {
      message: `${message}: the API server does not call virt-api`,
      fix: `create the webhooks again: patchbay install; on a standalone machine: patchbay up; ${INSPECT_WEBHOOKS}`,
    }),
  ];
}

function judgeService({ metadata, status }: ApiService): Finding {
  const check = `APIService ${metadata.name}`;
  const condition = status?.conditions?.find(({ type }) => type === "Available");
  if (condition?.status === "True") return ok(check, "virt-api responds");
  return wrong(check, {
    message: `virt-api does not respond: ${condition?.message ?? "it was not called yet"}`,
    fix: "check whether virt-api runs, and its log; requests for VMs fail until it responds",
  });
}

export function judgeAdmission({ trial, apiServices }: Facts): readonly Finding[] {
  return [
    ...("failure" in trial && trial.failure.includes("webhook")
      ? [wrong(WEBHOOKS, { message: trial.failure, fix: INSPECT_WEBHOOKS })]
      : ifObserved(WEBHOOKS, trial, judgeTrial)),
    ...ifObserved("APIServices of virt-api", apiServices, (value) => value.map(judgeService)),
  ];
}

const DAY_MS = 86_400_000;
const REMAINING_MIN_DAYS = 14;

function printDay(ms: number): string {
  return printTime(ms).slice(0, "2026-01-01".length);
}

function judgeEnd({ subject, endsMs }: CertificateEnd, nowMs: number): Finding {
  const check = `certificate: ${subject}`;
  const remainingDays = (endsMs - nowMs) / DAY_MS;
  if (remainingDays >= REMAINING_MIN_DAYS) return ok(check, `is valid until ${printDay(endsMs)}`);
  return wrong(check, {
    message:
      remainingDays <= 0 ? `expired on ${printDay(endsMs)}` : `expires on ${printDay(endsMs)}`,
    fix: "renew it where it was issued; virt-api renews those of Patchbay, and on a standalone machine the supervisor does: see their logs",
  });
}

export function judgeCertificates({ certificates, nowMs }: Facts): readonly Finding[] {
  return certificates.map((certificateEnd) => judgeEnd(certificateEnd, nowMs));
}
