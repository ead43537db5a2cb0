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

/** Opens streams to different VMIs of the namespace until one is rejected. Returns their number. */
function fill(active: ActiveStreams, namespace: string): number {
  let count = 0;
  const open = () => active.register({ ...CONSOLE, namespace, name: `vm-${String(count)}` });
  for (; open() !== undefined; count += 1);
  return count;
}

test("limits the streams of each VMI, of each namespace and of all namespaces", () => {
  const active = new ActiveStreams();
  for (let index = 0; index < 32; index += 1) expect(active.register(PORT)).toBeDefined();
  expect(active.register(PORT)).toBeUndefined();
  expect(["ns", "b", "c", "d", "e"].map((namespace) => fill(active, namespace))).toEqual([
    224, 256, 256, 256, 0,
  ]);
});

test("a rejected stream uses no part of another limit", () => {
  const active = new ActiveStreams();
  const ends = Array.from({ length: 32 }, () => active.register(PORT));
  for (let index = 0; index < 1000; index += 1) expect(active.register(PORT)).toBeUndefined();
  expect(fill(active, PORT.namespace)).toBe(224);
  for (const end of ends) end?.();
  expect(active.register(PORT)).toBeDefined();
});
