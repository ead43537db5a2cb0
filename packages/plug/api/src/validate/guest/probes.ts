// SPDX-License-Identifier: Apache-2.0
// How a guest may be asked whether it is well. Source: KubeVirt vmi-create-admitter validateProbe.
import type { GuestProbe } from "../../kinds/guest/probe.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { causeIf, type Rule } from "../rule.ts";

type Judge = (probe: GuestProbe, field: string) => readonly Cause[];

function forEachProbe(judge: Judge): Rule {
  return ({ spec, base }) =>
    (["readinessProbe", "livenessProbe"] as const).flatMap((name) => {
      const probe = spec[name];
      return probe === undefined ? [] : judge(probe, `${base}.${name}`);
    });
}

const hasOneWay = forEachProbe((probe, field) => {
  const { httpGet, tcpSocket, exec, guestAgentPing } = probe;
  const ways = [httpGet, tcpSocket, exec, guestAgentPing].filter((way) => way !== undefined);
  return [
    ...causeIf(ways.length > 1, {
      reason: "FieldValueInvalid",
      field,
      message: `${field} must have exactly one probe type set`,
    }),
    ...causeIf(ways.length === 0, {
      reason: "FieldValueRequired",
      field,
      message: `either ${field}.tcpSocket, ${field}.exec or ${field}.httpGet must be set if a ${field} is specified`,
    }),
  ];
});

/** The node asks the pod's address, behind which a guest is that is on the pod's network. */
const overPodNetwork: Rule = (judged) => {
  if (judged.networks.some(({ pod }) => pod !== undefined)) return [];
  const judge = forEachProbe((probe, field) =>
    (["httpGet", "tcpSocket"] as const).flatMap((way) =>
      causeIf(probe[way] !== undefined, {
        reason: "FieldValueInvalid",
        field: `${field}.${way}`,
        message: `${field}.${way} is only allowed if the Pod Network is attached`,
      }),
    ),
  );
  return judge(judged);
};

/** Judges the probes of a guest. */
export const PROBE_RULES: readonly Rule[] = [hasOneWay, overPodNetwork];
