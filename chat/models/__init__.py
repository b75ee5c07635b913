"""The records. The actions of features write them; ``save()`` does no hidden work.

It must not import a feature.
"""

from chat.models.artifact import (
    Artifact,
    ArtifactVersion,
    FetchStatus,
    Mockup,
    MockupFile,
    MockupVersion,
)
from chat.models.audit import AuditEvent
from chat.models.conversation import BranchChoice, Conversation, Message, Role, Visibility
from chat.models.file import AnswerFile, Attachment, FileContent, StoredFile
from chat.models.imports import Import, ImportedNames, ImportedSource
from chat.models.installation import CacheEntry, KeyKind, KeyMark
from chat.models.jobs import (
    ACTIVE_JOB_STATUSES,
    Job,
    JobChunk,
    JobKind,
    JobScope,
    JobStatus,
)
from chat.models.organization import Pin
from chat.models.project import (
    Project,
    ProjectAccess,
    ProjectColor,
    ProjectMember,
    ProjectRole,
)
from chat.models.question import OPEN_STATUSES, Question, QuestionKind, QuestionStatus
from chat.models.run import (
    Attempt,
    RawSegment,
    Run,
    RunInstructions,
    Runner,
    RunSegment,
    RunStatus,
)
from chat.models.search import SearchKind, SearchRow
from chat.models.team import Invitation, Membership, Team, TeamRole
from chat.models.token import AccessToken
from chat.models.tool import Tool
from chat.models.upstream import SeenEvent, Upstream
from chat.models.user import Announcements, User

__all__ = [
    "ACTIVE_JOB_STATUSES",
    "OPEN_STATUSES",
    "AccessToken",
    "Announcements",
    "AnswerFile",
    "Artifact",
    "ArtifactVersion",
    "Attachment",
    "Attempt",
    "AuditEvent",
    "BranchChoice",
    "CacheEntry",
    "Conversation",
    "FetchStatus",
    "FileContent",
    "Import",
    "ImportedNames",
    "ImportedSource",
    "Invitation",
    "Job",
    "JobChunk",
    "JobKind",
    "JobScope",
    "JobStatus",
    "KeyKind",
    "KeyMark",
    "Membership",
    "Message",
    "Mockup",
    "MockupFile",
    "MockupVersion",
    "Pin",
    "Project",
    "ProjectAccess",
    "ProjectColor",
    "ProjectMember",
    "ProjectRole",
    "Question",
    "QuestionKind",
    "QuestionStatus",
    "RawSegment",
    "Role",
    "Run",
    "RunInstructions",
    "RunSegment",
    "RunStatus",
    "Runner",
    "SearchKind",
    "SearchRow",
    "SeenEvent",
    "StoredFile",
    "Team",
    "TeamRole",
    "Tool",
    "Upstream",
    "User",
    "Visibility",
]
