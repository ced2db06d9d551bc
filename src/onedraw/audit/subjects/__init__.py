# SPDX-License-Identifier: Apache-2.0
"""Every mechanism of the library, set up to be audited: one list, read by the command and the nightly script.

A ``Subject`` is a mechanism on its smallest interesting model, with the data sets to attack it on. It has the
mechanism's name in the registry; a variant has another word after a colon. To have a new mechanism audited,
add it to ``regressions``, ``networks`` or ``programs``: nothing else needs to know of it.

* Where the output law is known (a posterior of at most two parameters, noise around an estimate or around a
  single step of gradient descent, a conjugate posterior), the attack is the optimal one, on the pair that its
  exact laws call most telling; for posteriors a search looks for the worst pair as well.
* Elsewhere its releases are attacked from outside, with a learned score.

>>> finding = audit_subject(SUBJECTS["one_posterior"], epsilon=1.0, rounds=2000, tries=50, random_state=0)
>>> finding.verdict, 0.97 < finding.exact_epsilon <= 1.0
('not contradicted', True)
"""

from onedraw.audit.subjects.accuracy import root_mean_squared_error
from onedraw.audit.subjects.auditing import audit_subject
from onedraw.audit.subjects.networks import NETWORKS
from onedraw.audit.subjects.programs import PROGRAMS
from onedraw.audit.subjects.regressions import REGRESSIONS
from onedraw.audit.subjects.subject import Subject

SUBJECTS: dict[str, Subject] = {subject.name: subject for subject in (*REGRESSIONS, *NETWORKS, *PROGRAMS)}
"""By name, in the order of the tables."""

__all__ = ["SUBJECTS", "Subject", "audit_subject", "root_mean_squared_error"]
