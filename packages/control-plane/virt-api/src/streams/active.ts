// SPDX-License-Identifier: Apache-2.0
// Limits and metrics of open streams. The metrics have KubeVirt's names, except that of captures.
import type { MetricFamily } from "@patchbay/core/metrics";
import type { StreamTarget } from "./paths.ts";

/** Maximum number of streams of a VMI. A browser opens several streams for a page. */
const STREAMS_PER_VMI_MAX = 32;
/** Maximum number of streams, each of which has its own connection to a node. */
const STREAMS_MAX = 1024;

const FAMILIES = {
  console: {
    name: "kubevirt_console_active_connections",
    help: "Open serial consoles, by VMI.",
  },
  vnc: { name: "kubevirt_vnc_active_connections", help: "Open screens, by VMI." },
  portforward: {
    name: "kubevirt_portforward_active_tunnels",
    help: "Open forwarded ports, by VMI.",
  },
  capture: {
    name: "patchbay_capture_active_connections",
    help: "Running packet captures, by VMI.",
  },
} as const;

export type StreamKind = keyof typeof FAMILIES;

export function toStreamKind(target: StreamTarget): StreamKind {
  if (target.kind === "guest") return target.stream;
  return target.kind === "forward" ? "portforward" : target.kind;
}

export class ActiveStreams {
  readonly #open = new Set<StreamTarget>();

  /** Registers a stream. Returns a function that unregisters it, or undefined at the limit. */
  register(target: StreamTarget): (() => void) | undefined {
    const ofVmi = [...this.#open].filter(
      ({ namespace, name }) => namespace === target.namespace && name === target.name,
    );
    if (this.#open.size >= STREAMS_MAX || ofVmi.length >= STREAMS_PER_VMI_MAX) return undefined;
    const entry = { ...target };
    this.#open.add(entry);
    return () => {
      this.#open.delete(entry);
    };
  }

  families(): readonly MetricFamily[] {
    return Object.entries(FAMILIES).map(([kind, { name, help }]) => {
      const counts = new Map<string, number>();
      for (const target of this.#open) {
        if (toStreamKind(target) !== kind) continue;
        const key = `${target.namespace}/${target.name}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      const samples = [...counts].map(([key, value]) => {
        const [namespace = "", vmi = ""] = key.split("/");
        return { labels: { namespace, vmi }, value };
      });
      return { name, help, type: "gauge", samples };
    });
  }
}
