// SPDX-License-Identifier: Apache-2.0
// GET /metrics: the metrics of the machine's services, for users who may get this path (system:monitoring).
import type { Express, NextFunction, Request, Response } from "express";

/** Source: Prometheus exposition formats. */
const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Reads the metrics of all services; unset: there are none, and the path is unknown. */
export interface MetricsDeps {
  readonly readMetrics?: () => Promise<string>;
}

/** Adds `/metrics`. */
export function routeMetrics(app: Express, { readMetrics }: MetricsDeps): void {
  if (readMetrics === undefined) return;
  app.get("/metrics", async (_request: Request, response: Response, next: NextFunction) => {
    try {
      const text = await readMetrics();
      response.writeHead(200, { "content-type": CONTENT_TYPE }).end(text);
    } catch (error) {
      next(error);
    }
  });
}
