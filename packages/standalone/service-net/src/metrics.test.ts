// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, createFakeProcessRunner } from "@patchbay/os/testing";
import { metricNamesOf, samplesIn } from "@patchbay/support";
import { createMetrics, createSilentLogger } from "@patchbay/telemetry";
import * as dns from "dns-packet";
import { expect, test } from "vitest";
import { answerQuery, type AnswerDeps } from "./dns/answer.ts";
import { listForwards } from "./forward/forwards.ts";
import { ForwardTable } from "./forward/forward-table.ts";
import { createServiceCounters } from "./metrics.ts";
import { aService, aSlice, RANGES } from "./testing/objects.ts";

/** Counted where loops and clients are made, as in each service. */
const OF_EACH = /^(patchbay_(reconcile|api)|kubevirt_workqueue)_/;
const SETTINGS = {
  table: "t",
  serviceNetwork: RANGES.services.text,
  dns: RANGES.dns,
  podNetwork: "10.88.0.0/16",
  bridge: "br0",
};

test("each documented service-net metric changes", async () => {
  const metrics = createMetrics("service-net");
  let isRefused = false;
  const runner = createFakeProcessRunner({ nft: () => ({ exitCode: isRefused ? 1 : 0 }) });
  const { countReply, countWrite } = createServiceCounters(metrics, () => keeper.count);
  const log = createSilentLogger();
  const deps = { runner, clock: createFakeClock(), log, settings: SETTINGS, countWrite };
  const keeper = new ForwardTable(deps);
  const forwards = listForwards(aService(), [aSlice([{ addresses: ["10.88.0.5"] }])], RANGES);

  await keeper.write([]);
  await keeper.write(forwards);
  isRefused = true;
  await expect(keeper.write([])).rejects.toMatchObject({ code: "SERVICE_RULES_REFUSED" });
  isRefused = false;
  await keeper.write(forwards);

  const answerDeps: AnswerDeps = {
    zone: {
      domain: "cluster.local",
      ranges: RANGES,
      findService: (_namespace, name) => (name === "web" ? aService() : undefined),
      slicesOf: () => [],
      hasNamespace: () => true,
    },
    forwardQuery: (question, { isTcp }) => Promise.resolve(isTcp ? question : undefined),
    nextRotation: () => 0,
    countReply,
  };
  const ask = async (name: string, more: dns.Packet & { readonly isTcp?: boolean } = {}) => {
    const { isTcp = false, ...packet } = more;
    const questions = [{ type: "A" as const, name }];
    const bytes = dns.encode({ type: "query", id: 1, questions, ...packet });
    await answerQuery(bytes, { address: "10.88.0.9", isTcp }, answerDeps);
  };
  await ask("web.blue.svc.cluster.local");
  await ask("nobody.blue.svc.cluster.local");
  await ask("example.org");
  await ask("example.org", { isTcp: true });
  // An update. Source: RFC 2136.
  await ask("web.blue.svc.cluster.local", { flags: 5 << 11 });

  const text = await metrics.print();
  const names = metricNamesOf("service-net").filter((name) => !OF_EACH.test(name));
  expect(names.flatMap((name) => samplesIn(text, name)).toSorted()).toEqual([
    'patchbay_dns_answers_total{by="nobody",result="refused"} 1',
    'patchbay_dns_answers_total{by="others",result="done"} 1',
    'patchbay_dns_answers_total{by="others",result="failed"} 1',
    'patchbay_dns_answers_total{by="own",result="done"} 1',
    'patchbay_dns_answers_total{by="own",result="missing"} 1',
    "patchbay_service_forwards 1",
    'patchbay_service_table_writes_total{result="changed"} 1',
    'patchbay_service_table_writes_total{result="failed"} 2',
    'patchbay_service_table_writes_total{result="whole"} 2',
  ]);
});
