// SPDX-License-Identifier: Apache-2.0
// Rules for fields of the launcher pod: names, DNS and probes. Source: KubeVirt vmi-create-admitter, Kubernetes
// pkg/apis/core/validation.
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { parseSloppyIp } from "../../values/ip.ts";
import { isJsonObject } from "../../values/json.ts";
import { causeIf, type Rule } from "../rule.ts";
import { labelFaults, subdomainFaults } from "./names.ts";
import type { GuestProbe } from "../../kinds/vmi-spec.ts";

/** Source: Kubernetes MaxDNSNameservers. */
const NAMESERVERS_MAX = 3;
/** Source: Kubernetes MaxDNSSearchPaths, since 1.28. */
const SEARCHES_MAX = 32;

function listConformityCauses(
  field: string,
  rules: string,
  faults: readonly string[],
): readonly Cause[] {
  return causeIf(faults.length > 0, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} does not conform to the kubernetes ${rules} rules : ${faults.join(", ")}`,
  });
}

const hostNameIsLabel: Rule = ({ spec: { hostname }, base }) =>
  typeof hostname === "string" && hostname !== ""
    ? listConformityCauses(`${base}.hostname`, "DNS_LABEL", labelFaults(hostname))
    : [];

const subdomainIsName: Rule = ({ spec: { subdomain }, base }) =>
  typeof subdomain === "string" && subdomain !== ""
    ? listConformityCauses(`${base}.subdomain`, "DNS_SUBDOMAIN", subdomainFaults(subdomain))
    : [];

function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isAddress(value: unknown): boolean {
  return typeof value === "string" && !value.includes("/") && parseSloppyIp(value) !== undefined;
}

const dnsConfigIsComplete: Rule = ({ spec: { dnsPolicy, dnsConfig }, base }) => {
  const field = `${base}.dnsConfig`;
  const config = isJsonObject(dnsConfig) ? dnsConfig : undefined;
  const nameservers = toList(config?.["nameservers"]);
  const serverCount = nameservers.length;
  const searchCount = toList(config?.["searches"]).length;
  const isPolicyNone = dnsPolicy === "None";
  return [
    ...causeIf(isPolicyNone && config === undefined, {
      reason: "FieldValueRequired",
      field,
      message: "must provide `dnsConfig` when `dnsPolicy` is None",
    }),
    ...causeIf(isPolicyNone && config !== undefined && serverCount === 0, {
      reason: "FieldValueRequired",
      field: `${field}.nameservers`,
      message: "must provide at least one DNS nameserver when `dnsPolicy` is None",
    }),
    ...causeIf(serverCount > NAMESERVERS_MAX, {
      reason: "FieldValueInvalid",
      field: `${field}.nameservers`,
      message: `must not have more than ${String(NAMESERVERS_MAX)} nameservers`,
    }),
    ...nameservers.flatMap((server, index) =>
      causeIf(!isAddress(server), {
        reason: "FieldValueInvalid",
        field: `${field}.nameservers[${String(index)}]`,
        message: `must be valid IP address: ${String(server)}`,
      }),
    ),
    ...causeIf(searchCount > SEARCHES_MAX, {
      reason: "FieldValueInvalid",
      field: `${field}.searches`,
      message: `must not have more than ${String(SEARCHES_MAX)} search paths`,
    }),
  ];
};

export const POD_RULES: readonly Rule[] = [hostNameIsLabel, subdomainIsName, dnsConfigIsComplete];

// Rules for probes. Source: KubeVirt vmi-create-admitter validateProbe.

type ProbeRule = (probe: GuestProbe, field: string) => readonly Cause[];

function forEachProbe(check: ProbeRule): Rule {
  return ({ spec, base }) =>
    (["readinessProbe", "livenessProbe"] as const).flatMap((name) => {
      const probe = spec[name];
      return probe === undefined ? [] : check(probe, `${base}.${name}`);
    });
}

const hasOneHandler = forEachProbe((probe, field) => {
  const { httpGet, tcpSocket, exec, guestAgentPing } = probe;
  const handlers = [httpGet, tcpSocket, exec, guestAgentPing].filter(
    (handler) => handler !== undefined,
  );
  return [
    ...causeIf(handlers.length > 1, {
      reason: "FieldValueInvalid",
      field,
      message: `${field} must have exactly one probe type set`,
    }),
    ...causeIf(handlers.length === 0, {
      reason: "FieldValueRequired",
      field,
      message: `either ${field}.tcpSocket, ${field}.exec or ${field}.httpGet must be set if a ${field} is specified`,
    }),
  ];
});

/** Requires the pod network for HTTP and TCP probes, because kubelet connects to the pod's address. */
const probesNeedPodNetwork: Rule = (validated) => {
  if (validated.networks.some(({ pod }) => pod !== undefined)) return [];
  const rule = forEachProbe((probe, field) =>
    (["httpGet", "tcpSocket"] as const).flatMap((handler) =>
      causeIf(probe[handler] !== undefined, {
        reason: "FieldValueInvalid",
        field: `${field}.${handler}`,
        message: `${field}.${handler} is only allowed if the Pod Network is attached`,
      }),
    ),
  );
  return rule(validated);
};

export const PROBE_RULES: readonly Rule[] = [hasOneHandler, probesNeedPodNetwork];
