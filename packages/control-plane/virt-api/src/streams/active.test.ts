// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { ActiveStreams } from "./active.ts";
import type { StreamTarget } from "./paths.ts";

const CONSOLE: StreamTarget = {
  namespace: "ns",
  name: "vm",
  isVm: false,
  kind: "guest",
  stream: "console",
  preservesSession: false,
};
const PORT: StreamTarget = {
  namespace: "ns",
  name: "other",
  isVm: true,
  kind: "forward",
  port: 22,
  protocol: "tcp",
};

function told(active: ActiveStreams): readonly string[] {
  return active
    .families()
    .flatMap(({ name, samples }) =>
      samples.map(({ labels, value }) => `${name} ${labels["vmi"] ?? ""} ${String(value)}`),
    );
}

test("reports open streams by kind and VMI", () => {
  const active = new ActiveStreams();
  const leave = active.register(CONSOLE);
  active.register({ ...CONSOLE, kind: "guest", stream: "vnc", preservesSession: true });
  active.register(PORT);
  active.register(PORT);
  expect(told(active)).toEqual([
    "kubevirt_console_active_connections vm 1",
    "kubevirt_vnc_active_connections vm 1",
    "kubevirt_portforward_active_tunnels other 2",
  ]);
  leave?.();
  leave?.();
  expect(told(active)).not.toContain("kubevirt_console_active_connections vm 1");
});

test("limits the streams of each VMI and of all VMIs", () => {
  const active = new ActiveStreams();
  for (let index = 0; index < 32; index += 1) expect(active.register(PORT)).toBeDefined();
  expect(active.register(PORT)).toBeUndefined();
  let count = 32;
  for (; active.register({ ...CONSOLE, name: `vm-${String(count)}` }) !== undefined; count += 1);
  expect(count).toBe(1024);
});
