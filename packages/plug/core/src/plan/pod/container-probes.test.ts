// SPDX-License-Identifier: Apache-2.0
import type { GuestProbe } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { containerProbesOf } from "./container-probes.ts";

interface Row {
  readonly name: string;
  readonly probe: GuestProbe;
  readonly want: object;
}

test.each<Row>([
  {
    name: "a port is asked by the kubelet, 10 s later",
    probe: { tcpSocket: { port: 22 }, initialDelaySeconds: 5, timeoutSeconds: 3 },
    want: { tcpSocket: { port: 22 }, initialDelaySeconds: 15, timeoutSeconds: 3 },
  },
  {
    name: "a server too, with all that is said of it",
    probe: {
      httpGet: { port: 80, path: "/healthz", httpHeaders: [{ name: "a", value: "b" }] },
      periodSeconds: 7,
      successThreshold: 2,
      failureThreshold: 4,
    },
    want: {
      httpGet: { port: 80, path: "/healthz", httpHeaders: [{ name: "a", value: "b" }] },
      periodSeconds: 7,
      successThreshold: 2,
      failureThreshold: 4,
      initialDelaySeconds: 10,
    },
  },
  {
    name: "a command goes to the guest's agent, which has a second more than the guest",
    probe: { exec: { command: ["cat", 'a "b"', "$(c)"] }, timeoutSeconds: 5 },
    want: {
      exec: {
        command: [
          "virt-probe",
          "default_vm1",
          "5",
          '{"execute":"guest-exec","arguments":{"path":"cat","arg":["a \\"b\\"","$(c)"],"capture-output":true}}',
        ],
      },
      initialDelaySeconds: 10,
      timeoutSeconds: 6,
    },
  },
  {
    name: "an agent is asked whether it answers",
    probe: { guestAgentPing: {}, timeoutSeconds: 0 },
    want: {
      exec: { command: ["virt-probe", "default_vm1", "1"] },
      initialDelaySeconds: 10,
      timeoutSeconds: 2,
    },
  },
])("$name", ({ probe, want }) => {
  const vmi = aVmi();
  const spec = { ...vmi.spec, livenessProbe: probe, readinessProbe: probe };
  expect(containerProbesOf({ ...vmi, spec })).toEqual({
    livenessProbe: want,
    readinessProbe: want,
  });
});

test("a guest without probes gives its container none", () => {
  expect(containerProbesOf(aVmi())).toEqual({});
});
