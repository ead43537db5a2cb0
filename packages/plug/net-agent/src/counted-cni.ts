// SPDX-License-Identifier: Apache-2.0
// What plugins are asked, and what becomes of it, in numbers.
import type { Cni } from "@patchbay/core/ports";
import type { Metrics } from "@patchbay/telemetry";

type Command = "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "RELEASE";

/** The same plugins, whose operations are counted as `patchbay_cni_operations_total`. */
export function countedCni(cni: Cni, metrics: Pick<Metrics, "addCounter">): Cni {
  const count = metrics.addCounter({
    name: "patchbay_cni_operations_total",
    help: "Operations of CNI on whole lists of plugins, by what became of them.",
    labelNames: ["command", "result"],
  });
  const counted = async <T>(command: Command, operation: Promise<T>): Promise<T> => {
    try {
      const outcome = await operation;
      // What configuration or version keep from being asked says so.
      count({ command, result: outcome === false ? "unasked" : "done" });
      return outcome;
    } catch (error) {
      count({ command, result: "failed" });
      throw error;
    }
  };
  return {
    add: (request) => counted("ADD", cni.add(request)),
    del: (request, prevResult) => counted("DEL", cni.del(request, prevResult)),
    check: (request, prevResult) => counted("CHECK", cni.check(request, prevResult)),
    status: (config) => counted("STATUS", cni.status(config)),
    gc: (config, listValid) => counted("GC", cni.gc(config, listValid)),
    releaseAddresses: (request) => counted("RELEASE", cni.releaseAddresses(request)),
  };
}
