// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { mergeMetrics } from "./metrics.ts";

const API = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="get",path="/a}b"} 3
# HELP seconds Time.
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 2
seconds_count 2
`;
const HANDLER = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="get",path="/a}b"} 4
requests_total{} 1
`;

test("outputs each family once, with the samples of all services separately", () => {
  const services = [
    { service: "virt-api", text: API },
    { service: "virt-handler", text: HANDLER },
    { service: "net-agent", text: undefined },
  ];
  expect(mergeMetrics(services).split("\n")).toEqual([
    "# HELP patchbay_service_up 1 if the service answered this request, else 0.",
    "# TYPE patchbay_service_up gauge",
    'patchbay_service_up{service="virt-api"} 1',
    'patchbay_service_up{service="virt-handler"} 1',
    'patchbay_service_up{service="net-agent"} 0',
    "# HELP requests_total Requests.",
    "# TYPE requests_total counter",
    'requests_total{service="virt-api",verb="get",path="/a}b"} 3',
    'requests_total{service="virt-handler",verb="get",path="/a}b"} 4',
    'requests_total{service="virt-handler"} 1',
    "# HELP seconds Time.",
    "# TYPE seconds histogram",
    'seconds_bucket{service="virt-api",le="+Inf"} 2',
    'seconds_count{service="virt-api"} 2',
    "",
  ]);
});
