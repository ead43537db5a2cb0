// SPDX-License-Identifier: Apache-2.0
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { metricNamesOf, samplesIn } from "@patchbay/support";
import { createMetrics } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { createDecisionCounter } from "../admission/decisions.ts";
import { ActiveStreams } from "../streams/active.ts";
import { parseStreamUrl } from "../streams/paths.ts";
import { callNameOf, counted } from "./call-name.ts";

const VM = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/b";

test.each([
  ["/mutate?timeout=10s", "mutate"],
  ["/validate", "validate"],
  [`${VM}/addinterface`, "addinterface"],
  [`${VM}/removeinterface?dryRun=All`, "removeinterface"],
  [`${VM}/portforward/22/tcp`, "portforward"],
  ["/apis/subresources.kubevirt.io/v1/version", "version"],
  ["/apis/subresources.kubevirt.io/v1/namespaces/a/expand-vm-spec", "expand-vm-spec"],
  [`${VM}/sing`, "other"],
  ["/apis", "other"],
  ["", "other"],
])("%j is %s", (url, want) => {
  expect(callNameOf(url)).toBe(want);
});

/** Counted where loops and clients are made, as in each service. */
const OF_EACH = /^(patchbay_(reconcile|api)|kubevirt_workqueue)_/;

test("each number that the docs say virt-api alone tells moves with a request", async () => {
  const metrics = createMetrics("virt-api");
  const request = Object.assign(new IncomingMessage(new Socket()), { url: "/validate" });
  const names = metricNamesOf("virt-api").filter((name) => !OF_EACH.test(name));
  counted(() => undefined, metrics)(request, new ServerResponse(request));
  const question = { webhook: "validate", operation: "CREATE" } as const;
  createDecisionCounter(metrics)({ ...question, decision: "denied" });
  const active = new ActiveStreams();
  metrics.addSource(() => Promise.resolve(active.families()));
  for (const path of ["console", "vnc", "portforward/22", "capture?interface=c"]) {
    const target = parseStreamUrl(
      `${VM.replace("virtualmachines", "virtualmachineinstances")}/${path}`,
    );
    if (target !== undefined) active.enter(target);
  }
  const text = await metrics.print();
  expect(names.flatMap((name) => samplesIn(text, name))).toEqual([
    'patchbay_served_total{call="validate"} 1',
    'patchbay_admission_decisions_total{webhook="validate",operation="CREATE",decision="denied"} 1',
    'kubevirt_console_active_connections{namespace="a",vmi="b"} 1',
    'kubevirt_vnc_active_connections{namespace="a",vmi="b"} 1',
    'kubevirt_portforward_active_tunnels{namespace="a",vmi="b"} 1',
    'patchbay_capture_active_connections{namespace="a",vmi="b"} 1',
  ]);
});
