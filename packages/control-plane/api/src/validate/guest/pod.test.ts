// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { causesOfGuest, invalid, type GuestRow } from "../../testing/guest-rows.ts";

const TCP = { tcpSocket: { port: 22 } };
const ON_POD_NETWORK = {
  domain: { devices: { interfaces: [{ name: "default", masquerade: {} }] } },
  networks: [{ name: "default", pod: {} }],
};
const READY = "spec.readinessProbe";
const ALIVE = "spec.livenessProbe";

test.each<GuestRow>([
  {
    name: "a TCP and an HTTP probe with the pod network",
    spec: { ...ON_POD_NETWORK, readinessProbe: TCP, livenessProbe: { httpGet: { port: 80 } } },
    want: [],
  },
  {
    name: "exec and guest agent probes without any network",
    spec: {
      domain: {},
      readinessProbe: { exec: { command: ["true"] } },
      livenessProbe: { guestAgentPing: {} },
    },
    want: [],
  },
  {
    name: "two probe types at once",
    spec: { ...ON_POD_NETWORK, readinessProbe: { ...TCP, guestAgentPing: {} } },
    want: [invalid(READY, `${READY} must have exactly one probe type set`)],
  },
  {
    name: "a probe without a type",
    spec: { domain: {}, livenessProbe: { periodSeconds: 5 } },
    want: [
      [
        "FieldValueRequired",
        ALIVE,
        `either ${ALIVE}.tcpSocket, ${ALIVE}.exec or ${ALIVE}.httpGet must be set if a ${ALIVE} is specified`,
      ],
    ],
  },
  {
    name: "a TCP and an HTTP probe without the pod network",
    spec: { domain: {}, readinessProbe: TCP, livenessProbe: { httpGet: { port: 80 } } },
    want: [
      invalid(
        `${READY}.tcpSocket`,
        `${READY}.tcpSocket is only allowed if the Pod Network is attached`,
      ),
      invalid(
        `${ALIVE}.httpGet`,
        `${ALIVE}.httpGet is only allowed if the Pod Network is attached`,
      ),
    ],
  },
])("$name", ({ spec, want }) => {
  expect(causesOfGuest(spec)).toEqual(want);
});
